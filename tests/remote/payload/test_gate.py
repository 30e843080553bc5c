"""A process behind the gate has nothing of the supervisor that started it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from remote.payload.files.lock import holder, take_lock
from remote.payload.processes.launch import CANNOT_RUN, start_gated

LIST_DESCRIPTORS = "import os; print([fd for fd in range(3, 256) if os.path.exists(f'/proc/self/fd/{fd}')])"


def test_a_process_at_the_gate_does_not_hold_the_lock_of_its_supervisor(tmp_path: Path) -> None:
    """Otherwise a job whose supervisor has just been killed counts as supervised, and is not adopted."""
    lock = take_lock(str(tmp_path / "lock"), "1")
    gated = start_gated([sys.executable, "-c", ""], str(tmp_path), {}, str(tmp_path / "output"))
    lock.release()
    held = holder(str(tmp_path / "lock"))
    os.close(gated.gate)
    _, status = os.waitpid(gated.pid, 0)
    assert held is None
    assert os.waitstatus_to_exitcode(status) == CANNOT_RUN, "a gate that was closed starts nothing"


def test_a_job_inherits_its_standard_streams_only(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    output = tmp_path / "output"
    gated = start_gated([sys.executable, "-S", "-c", LIST_DESCRIPTORS], str(tmp_path), {}, str(output))
    gated.open_gate()
    os.waitpid(gated.pid, 0)
    os.close(reader)
    os.close(writer)
    assert output.read_text() == "[]\n"
