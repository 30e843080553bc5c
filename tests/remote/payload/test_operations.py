"""The table of operations: every row has a handler, and reading operations change nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.payload.operations import OPERATIONS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_row_has_a_function_that_accepts_a_call(name: str) -> None:
    handler = OPERATIONS[name].handler
    assert handler.__code__.co_varnames[: handler.__code__.co_argcount] == ("call",)
    assert handler.__doc__


def test_an_operation_that_changes_something_cannot_be_called_as_a_query(tmp_path: object) -> None:
    host = local_host(str(tmp_path), keep=False)
    changing = [name for name, operation in OPERATIONS.items() if operation.changes]
    try:
        for name in changing:
            with pytest.raises(RemoteFault) as refused:
                host.ask(name, {})
            assert refused.value.kind == "read-only"
    finally:
        host.close()


def test_an_unknown_operation_is_refused_by_name(tmp_path: object) -> None:
    host = local_host(str(tmp_path), keep=False)
    try:
        with pytest.raises(RemoteFault, match=r"no\.such\.operation"):
            host.ask("no.such.operation")
    finally:
        host.close()


@pytest.mark.parametrize(
    "unneeded", [("statistics", "ctypes", "remote.payload.jobs.job_loop"), ("zipfile", "platform", "socket")]
)
def test_a_survey_imports_no_code_that_runs_jobs_or_checks_weights(unneeded: tuple[str, ...]) -> None:
    """Most of the time until an agent's first answer is spent on imports."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import remote.payload.agent.answerer\n"
        "from remote.payload.operations import OPERATIONS\n"
        "assert OPERATIONS['survey'].handler\n"
        "print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", program, str(ROOT)]
    imported = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert "remote.payload.jobs.turn" in imported
    assert [name for name in unneeded if name in imported] == []
