"""The descendants of a process, found repeatedly on a machine with many other processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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


LAST_PID = "/proc/sys/kernel/ns_last_pid"
REUSES = """
import os, sys, time
from remote.payload.processes.identity import Descendants
from remote.payload.processes.marked import Marked
from remote.payload.processes.subreaper import become_subreaper

def start(pid, sleeps):
    for _ in range(100):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid - 1))
        child = os.fork()
        if not child:
            os.environ["MARK"] = "1"
            os.execvp("sleep", ["sleep", sleeps])
        if child == pid:
            return
        os.kill(child, 9)
        os.waitpid(child, 0)
    raise SystemExit("no such pid")

def end(pid):
    os.kill(pid, 9)
    os.waitpid(pid, 0)

become_subreaper()
root = os.fork()
if not root:
    os.execvp("sleep", ["sleep", "100"])
pid = os.getpid() + 500
start(pid, "100")
family = Descendants(root)
clock = 0.0
marked = Marked("MARK=2", clock=lambda: clock)
assert pid not in [one.pid for one in family.read()] and marked.read() == []
clock = 1000.0
assert marked.read() == []
end(pid)
family._root = os.getpid()
start(pid, "200")
print("found" if pid in [one.pid for one in family.read()] else "hidden")
again = [each for each in marked._seen if each[0] == pid]
marked.read()
print("read again" if again != [each for each in marked._seen if each[0] == pid] else "kept")
end(pid)
end(root)
"""


@pytest.mark.root
@pytest.mark.skipif(not os.path.exists(LAST_PID), reason="this kernel does not let a test choose a pid")
def test_SE_a_descendant_with_the_pid_of_a_foreign_process_that_has_ended_is_found() -> None:
    argv = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", REUSES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "found\nread again\n"), done.stderr
