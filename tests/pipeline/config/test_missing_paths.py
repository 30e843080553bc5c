"""Paths of a config that name a user who does not exist, or a circular link."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.config.config_files import GOOD, problem_text, write

COMMAND = "command: [python, {}]\n"


@pytest.fixture(autouse=True)
def loops(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.py").symlink_to("other.py")
    (tmp_path / "other.py").symlink_to("loop.py")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (COMMAND.format("train.py") + "data: {path: ~no-such-user/x}\n", "data.path: there is no ~no-such-user/x"),
        (COMMAND.format("train.py") + "data: {path: ~no-such-user}\n", "data.path: there is no ~no-such-user"),
        ("project: ~no-such-user/x\n" + COMMAND.format("train.py"), "project: there is no folder"),
    ],
)
def test_SE_a_user_who_does_not_exist_is_a_missing_path(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, text)
    assert words in problem_text(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (COMMAND.format("loop.py"), "command: loop.py is a broken link"),
        (COMMAND.format("loop/t.py"), "command: there is no loop/t.py"),
        (COMMAND.format("train.py") + "data: {path: loop}\n", "data.path: there is no loop"),
        (COMMAND.format("train.py") + "data: {path: loop/../loop/x}\n", "data.path: there is no loop"),
        ("project: loop\n" + COMMAND.format("train.py"), "project: there is no folder"),
        (GOOD + "fixers: {data-collator: {path: loop.py}}\n", "fixers.data-collator.path: loop.py is a broken link"),
    ],
)
def test_SE_a_circular_link_is_a_missing_path(tmp_path: Path, text: str, words: str) -> None:
    write(tmp_path, text)
    assert words in problem_text(tmp_path)
