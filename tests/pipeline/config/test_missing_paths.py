"""Paths of a config that cannot be looked up: unknown users, circular links, long names, closed folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.config.load import load_config
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


LONG = "a" * 300


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (COMMAND.format("train.py") + f"data: {{path: {LONG}}}\n", f"data.path: {LONG} cannot be read: File name too"),
        (f"project: {LONG}\n" + COMMAND.format("train.py"), "cannot be read: File name too long"),
        (COMMAND.format(f"{LONG}.py"), "cannot be read: File name too long"),
        (COMMAND.format("train.py") + "data: {path: long}\n", "data.path: long cannot be read: File name too long"),
        (GOOD + f"fixers: {{data-collator: {{path: {LONG}}}}}\n", "cannot be read: File name too long"),
        (GOOD + 'fixers: {data-collator: {path: "a\\0b"}}\n', "fixers.data-collator.path: must not contain a NUL"),
        (GOOD + 'fixers: {tokenizer: {folders: [a, "b\\0"]}}\n', "fixers.tokenizer.folders: must not contain a NUL"),
    ],
)
def test_SE_a_name_that_no_file_can_have_is_a_problem_of_its_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "long").symlink_to(LONG)
    write(tmp_path, text)
    assert words in problem_text(tmp_path)


NOBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.root
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            COMMAND.format("train.py") + "data: {path: CLOSED/x}\n",
            "data.path: CLOSED/x cannot be read: Permission denied",
        ),
        ("project: CLOSED/x\n" + COMMAND.format("train.py"), "CLOSED/x cannot be read: Permission denied"),
        (COMMAND.format("sub.py"), "command: sub.py is outside the project"),
    ],
)
def test_SE_a_folder_that_is_closed_to_the_user_is_named(open_folder: Path, text: str, words: str) -> None:
    closed, project = str(open_folder / "closed"), open_folder / "project"
    project.mkdir()
    (open_folder / "closed").mkdir(mode=0o700)
    (project / "train.py").touch()
    (project / "sub.py").symlink_to(f"{closed}/x")
    write(project, GOOD)
    assert load_config("mine", project).root == project
    write(project, text.replace("CLOSED", closed))
    os.seteuid(NOBODY)
    try:
        found = problem_text(project)
    finally:
        os.seteuid(0)
    assert words.replace("CLOSED", closed) in found
