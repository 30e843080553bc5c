"""The descendants of a process, found repeatedly on a machine with many other processes."""

from __future__ import annotations

import os
import subprocess
import sys

from remote.payload.processes.identity import Descendants

READS_TWICE = """
import os, sys
from remote.payload.processes.identity import Descendants
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
family = Descendants(int(sys.argv[1]))
first = {process.pid for process in family.read()}
assert "/proc/1/stat" in opened
opened.clear()
assert {process.pid for process in family.read()} == first
assert {os.getpid(), int(sys.argv[2])} <= first
assert f"/proc/{sys.argv[2]}/stat" in opened and "/proc/1/stat" not in opened, opened
"""


def test_a_process_that_starts_between_two_reads_is_found_until_it_ends() -> None:
    family = Descendants(os.getpid())
    before = {process.pid for process in family.read()}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert {process.pid for process in family.read()} - before == {child.pid}
        child.communicate()
        assert child.pid not in {process.pid for process in family.read()}


def test_processes_outside_are_read_only_once() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        argv = [sys.executable, "-c", READS_TWICE, str(os.getpid()), str(child.pid)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        child.communicate()
