"""The hints of `hosts check` about the interpreter of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.verbs.hosts import hint_of, similar_host_hint
from remote.operations.inspection import Row, State
from remote.protocol.exits import ExitCode

NO_TORCH = Row("python", State.WARNING, "no torch", "fixers: {environment: create}   (in the config)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("project: .\ncommand: [python, train.py]\n", True),
        ("project: .\ncommand: [python, train.py]\nfixers: {environment: create}\n", False),
        ("project: .\nprecison: fp32\nfixers: {environment: create}\n", True),
    ],
)
def test_a_setting_that_a_config_of_the_project_already_has_is_not_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, shown: bool
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "toy.yaml").write_text(text)
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    assert hint_of(NO_TORCH, load_host("local", tmp_path)) == (NO_TORCH.hint if shown else "")


def test_name_of_a_host_file_is_quoted_in_a_hint(tmp_path: Path) -> None:
    hosts = tmp_path / "configs" / "hosts"
    hosts.mkdir(parents=True)
    (hosts / "gpubox;sh x.yaml").write_text("host: gpubox.invalid\n")
    host = load_host("gpubox;sh", tmp_path)
    assert similar_host_hint(host, ExitCode.CONNECT) == "pipeline hosts check 'gpubox;sh x'"
    assert similar_host_hint(host, ExitCode.OK) == ""
