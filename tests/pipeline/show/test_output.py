"""The end of an output without a newline leaves the prompt of the shell on a line of its own."""

from __future__ import annotations

import pytest

from pipeline.show.output import OutputLines


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
