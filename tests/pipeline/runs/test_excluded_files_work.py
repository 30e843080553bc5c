"""The work of excluding files grows with the files plus the words of the command, not with their product."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from pipeline.runs import excluded_files as module
from pipeline.runs.excluded_files import excluded_files

AUTO = ("auto",)


class CountedWords(tuple[str, ...]):
    """A command that counts how often its words are read."""

    readings = 0

    def __iter__(self) -> Iterator[str]:
        type(self).readings += 1
        return super().__iter__()


def documents(number: int) -> tuple[str, ...]:
    return tuple(f"docs/{index}.md" for index in range(number))


def steps(files: int, words: int) -> int:
    """Return the number of executed lines of the module for this number of files and words of the command."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename == module.__file__ else None

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        excluded_files(documents(files), AUTO, ("python", *(f"a.{index}" for index in range(words))))
    finally:
        sys.settrace(previous)
    return count


def test_SE_the_words_of_a_command_are_read_once_for_all_excluded_files() -> None:
    CountedWords.readings = 0
    excluded = excluded_files(documents(50), AUTO, CountedWords(("python", "train.py", "docs/7.md")))
    assert not excluded and CountedWords.readings == 1, "docs/ contains a named file, so all of it is an input"


def test_SE_the_work_for_excluded_files_does_not_grow_with_the_product_of_files_and_words() -> None:
    alone = steps(400, 1) + steps(1, 400)
    assert steps(400, 400) < 2 * alone


def test_a_file_below_a_named_folder_of_any_depth_is_an_input() -> None:
    paths = ("docs/a/b/c.md", "docs/ab.md", "docs.md")
    assert excluded_files(paths, AUTO, ("python", "docs/a")) == {"docs/ab.md", "docs.md"}
