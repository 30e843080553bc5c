"""The hints of `hosts check` about the interpreter of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.verbs.hosts import hint_of
from remote.operations.inspection import Row, State

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
