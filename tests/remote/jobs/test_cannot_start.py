"""A command that cannot be started is reported with the reason."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from remote.payload.processes.launch import why_not_started

SCRIPTS = {
    "plain.sh": (b"echo\n", 0o755, "its first line names no interpreter (#!/bin/bash)"),
    "mode.sh": (b"#!/bin/sh\necho\n", 0o644, "it is not executable (chmod +x)"),
    "windows.sh": (b"#!/bin/sh\r\necho\r\n", 0o755, "its first line ends in a carriage return"),
    "nobody.sh": (b"#!/no/such/shell\necho\n", 0o755, "an interpreter that does not exist: #!/no/such/shell"),
}


def failure_of(program: str) -> str:
    with pytest.raises(OSError) as caught:
        subprocess.run([program], check=False)
    return why_not_started(program, caught.value)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_that_cannot_be_started_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data, mode, words = SCRIPTS[name]
    (tmp_path / name).write_bytes(data)
    (tmp_path / name).chmod(mode)
    assert words in failure_of(f"./{name}")


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert failure_of("no-such-program") == "no program of that name is on PATH"
    assert failure_of("./no-such-program") == "No such file or directory"
