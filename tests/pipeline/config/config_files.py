"""Writes config files of a project and returns the problems of an invalid one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.load import load_config
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

GOOD = "project: .\nmodel: {id: tiny/phi4-multimodal}\ndata: {dataset: tiny-speech}\n"


def write(root: Path, text: str | bytes, name: str = "mine") -> Path:
    """Write a config of the project in `root`; `hosts/NAME` is a host file."""
    path = root / "configs" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    """Return the problems of an invalid config."""
    with pytest.raises(HalfstepError) as caught:
        load_config(name, root, overrides)
    assert caught.value.exit_code is ExitCode.USAGE
    error = caught.value
    return error.findings or (Finding("config", Severity.ERROR, error.message, error.where, error.hint),)


def problem_text(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> str:
    """Return the places, messages and hints of the problems as one text."""
    return "\n".join(f"{f.where} {f.message} {f.hint}" for f in problems(root, name, overrides))
