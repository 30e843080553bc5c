"""The output of a local program is printed line by line, and nothing in it controls the terminal."""

from __future__ import annotations

import os

import pytest

from pipeline.show.local_program import LONGEST_PART, start_printing


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"", ""),
        (b"Serving at http://127.0.0.1:6006/\n", "  P: Serving at http://127.0.0.1:6006/\n"),
        ("caf\u00e9 \u2713 50 %|##  |\n".encode(), "  P: caf\u00e9 \u2713 50 %|##  |\n"),
        (b"    indented [1]\n", "  P:     indented [1]\n"),
        (b"\n \nNOTE: one\r\n\n", "  P: NOTE: one\n"),
        (b"no end", "  P: no end\n"),
        (b"\x1b]0;t\x07\x1b[2J\x9b\xff\n", "  P: \\x1b]0;t\\x07\\x1b[2J\\x9b\\xff\n"),
        ("\u202e\u200b-\u2028\n".encode(), "  P: \\u202e\\u200b-\\u2028\n"),
        (b"shown\rhidden\n", "  P: shown\\rhidden\n"),
        (b"next: rm -r x\n", "  P: next\\x3a rm -r x\n"),
        (b"[red]text[/]\n", "  P: [red]text[/]\n"),
    ],
)
def test_lines_are_escaped_and_named(capsys: pytest.CaptureFixture[str], written: bytes, shown: str) -> None:
    reader, writer = os.pipe()
    thread = start_printing(os.fdopen(reader, "rb"), "P")
    os.write(writer, written)
    os.close(writer)
    thread.join(30)
    assert not thread.is_alive()
    assert capsys.readouterr().err == shown


def test_a_line_without_an_end_is_printed_in_parts(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    thread = start_printing(os.fdopen(reader, "rb"), "P")
    with os.fdopen(writer, "wb") as out:
        out.write(b"x" * (3 * LONGEST_PART))
    thread.join(30)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.endswith("[cut]") for line in lines)
