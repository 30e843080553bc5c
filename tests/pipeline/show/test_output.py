"""The end of an output without a newline leaves the prompt of the shell on a line of its own."""

from __future__ import annotations

import pytest

from pipeline.show.output import MOST_CHARACTERS, MOST_LINES, LastLines, OutputLines


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"done, no newline", ["done, no newline\n"]),
        (b"a\nb", ["a\n", "b\n"]),
        (b"90%\r100%", ["100%\n"]),
        (b"a\n", ["a\n"]),
        (b"", []),
    ],
)
def test_the_last_line_is_complete(output: bytes, shown: list[str]) -> None:
    lines = OutputLines()
    assert [*lines.feed(output), *lines.end()] == shown


@pytest.mark.parametrize(
    ("lines", "length", "kept"),
    [(MOST_LINES + 5, 0, MOST_LINES), (300, MOST_CHARACTERS // 100, 99), (3, 9, 3), (2, MOST_CHARACTERS, 0)],
)
def test_SE_09_only_the_last_lines_of_an_output_are_kept(lines: int, length: int, kept: int) -> None:
    last = LastLines()
    line = "x" * length + "\n"
    for _ in range(lines):
        last.add(line)
    assert (len(last.lines()), last.omitted) == (kept, lines - kept)
    assert set(last.lines()) <= {"x" * length}


@pytest.mark.parametrize(
    ("output", "width", "shown"),
    [
        (b"precision fp16: frozen float16, autocast\n", 35, ["precision fp16: frozen float16,\nautocast\n"]),
        (b"precision fp16: frozen float16, autocast\n", None, ["precision fp16: frozen float16, autocast\n"]),
        (b"exactly ten\n", 11, ["exactly ten\n"]),
        (b"    return  a + b\n", 12, ["    return\na + b\n"]),
        (b"/a/path/longer/than/the/line in it", 12, ["/a/path/longer/than/the/line\nin it\n"]),
    ],
    ids=["words", "no terminal", "fits", "code", "long word"],
)
def test_a_long_line_is_wrapped_between_words_on_a_terminal(output: bytes, width: int | None, shown: list[str]) -> None:
    lines = OutputLines(width)
    assert [*lines.feed(output), *lines.end()] == shown
