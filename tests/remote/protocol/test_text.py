"""Text of another machine is made safe for a terminal."""

from __future__ import annotations

import json
import os
import pty
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.protocol.text import (
    MAX_LINE,
    file_lines,
    first_line,
    line_fields,
    one_line,
    safe_json,
    safe_text,
    whole_number,
)


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain text\n\twith a tab", "plain text\n\twith a tab"),
        ("näme 漢字", "näme 漢字"),
        ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
        ("\x1b]52;c;aGk=\x07", "\\x1b]52;c;aGk=\\x07"),
        ("\x1b]8;;http://x\x1b\\link", "\\x1b]8;;http://x\\x1b\\link"),
        ("loss 0.1\rloss 9.9", "loss 0.1\nloss 9.9"),
        ("a\r\nb", "a\nb"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f\x08\x00", "\\x7f\\x08\\x00"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("to\u200bken", "to\\u200bken"),
        ("a\u2060\ufe0f\u00ad\u3164\uffa0", "a\\u2060\\ufe0f\\xad\\u3164\\uffa0"),
        ("a\U000e0061\U000e0fff\U0001d173", "a\\U000e0061\\U000e0fff\\U0001d173"),
        ("\u0643\u062a\u0627\u0628 \u0939\u093f", "\u0643\u062a\u0627\u0628 \u0939\u093f"),
        ("\udcff", "\\xff"),
        ("\ud800", "\\ud800"),
        (b"\xff\xfe ok", "\\xff\\xfe ok"),
        (b"", ""),
    ],
)
def test_BI_55_control_characters_are_escaped(given_text: str | bytes, shown: str) -> None:
    assert safe_text(given_text) == shown


def test_BI_55_a_line_of_ten_megabytes_is_cut_and_says_so() -> None:
    shown = safe_text("x" * 10_000_000 + "\nnext")
    first, second = shown.split("\n")
    assert len(first) == MAX_LINE
    assert first.endswith("[cut]")
    assert second == "next"


@given(st.one_of(st.text(), st.binary(), st.text(alphabet="\x1b[]\x07\r\n\x9b\u202eab")))
def test_BI_55_no_control_sequence_is_left_and_a_second_pass_changes_nothing(text: str | bytes) -> None:
    shown = safe_text(text)
    assert all(char in "\n\t" or char.isprintable() or ord(char) >= 0xA0 for char in shown)
    assert safe_text(shown) == shown
    shown.encode("utf-8")


@pytest.mark.parametrize("escape", [safe_text, safe_json])
def test_no_character_that_a_terminal_shows_as_nothing_is_left(escape: Callable[[str], str]) -> None:
    """A format character (Cf) is shown only if Unicode calls it a prepended concatenation mark."""
    shown_marks = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    shown_marks |= set(range(0x13430, 0x13440))  # these join hieroglyphs, which are visible
    every = "".join(map(chr, range(0x20, 0xD800))) + "".join(map(chr, range(0xE000, 0x110000)))
    pieces = (every[at : at + 150] for at in range(0, len(every), 150))  # longer lines are cut
    left = {ord(char) for piece in pieces for char in escape(piece)}
    assert not [hex(code) for code in left - shown_marks if unicodedata.category(chr(code)) in ("Cf", "Cc", "Zl", "Zp")]
    assert {0xE9, 0x4E2D, 0x1F9A5} <= left


def test_the_escaped_json_is_the_same_text() -> None:
    text = "".join(map(chr, (0x7F, 0x9B, 0xAD, 0x200B, 0x202E, 0x1D173, 0xE0041, 0x1F9A5)))
    assert json.loads(safe_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028", "\t", "\x0b"])
def test_a_name_adds_no_line_to_a_question(end: str) -> None:
    assert one_line(f"a{end}b").isprintable() and len(one_line(f"a{end}b")) > 3


def test_BI_55_the_terminal_gets_no_escape_through_a_pty() -> None:
    reader, writer = pty.openpty()
    os.write(writer, safe_text("\x1b[?1049h\x1b]0;title\x07\x9b2J").encode())
    os.close(writer)
    seen = os.read(reader, 4096)
    os.close(reader)
    assert b"\x1b" not in seen
    assert b"\x07" not in seen
    assert b"\x9b" not in seen.decode().encode("latin-1", "replace")


@pytest.mark.parametrize(
    ("text", "line"), [("\n\n  hello \nworld", "hello"), ("", ""), (b"\x1b[0m\n", "\\x1b[0m"), ("\r\rx", "x")]
)
def test_the_first_line_with_text_is_returned(text: str | bytes, line: str) -> None:
    assert first_line(text) == line


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("123456789", 123456789), ("1234567890", None), ("\u00b2", None), ("\u0663", None)]
    + [(text, None) for text in ("", "-1", "+1", " 1", "1\n", "1_0", "9" * 5000)],
)
def test_a_whole_number_has_up_to_nine_ascii_digits(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_lines_end_at_line_feeds_and_fields_at_spaces_and_tabs() -> None:
    others = "\v\f\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029"
    assert file_lines(f"a\r{others}b\r\n\nc") == [f"a\r{others}b", "", "c"]
    assert line_fields(f" a{others}b \t c\t") == [f"a{others}b", "c"]
    assert line_fields("") == []
