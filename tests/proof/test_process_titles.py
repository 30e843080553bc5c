"""Processes that hide their variables by setting their title."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

from remote.payload.processes.identity import read_process
from remote.payload.proof.pythons import Pythons
from remote.payload.proof.unhooked import judge_unsigned

HOOKS = "/scratch/hooks"
TITLE = """
import ctypes, torch
environ = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
with open("/proc/self/environ", "rb") as file:
    size = len(file.read())
ctypes.memset(environ[0], ord("r"), size - 1)  # as setproctitle does
print(flush=True)
input()
"""


def test_SE_training_processes_whose_titles_hide_their_variables_are_unsigned(tmp_path):
    pythons, argv = Pythons(HOOKS, str(tmp_path)), [sys.executable, "-c", TITLE]
    with contextlib.ExitStack() as stack:
        for number, unsigned in ((1, False), (2, True)):
            ran = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            stack.callback(ran.kill)
            ran.stdout.readline()
            pythons.look(lambda pid=ran.pid: [read_process(pid)], 100.0 * number)
            assert pythons.saw_unsigned is unsigned, "one process has nobody to whom it sends objects"
        assert "process title" in judge_unsigned(pythons.processes()).message
        for one in pythons.processes():
            note = {"pid": one.pid, "command": ["python", "a.py"], "torch": True}
            (tmp_path / f"python-{one.pid}.json").write_text(json.dumps(note))
        pythons.look(list, 300.0)
        assert not pythons.saw_unsigned, "the hooks run in both"
