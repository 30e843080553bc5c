"""Only the last state of a progress bar is kept."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.protocol.lines import LineCollapser

CASES = [
    ("plain\nlines\n", "plain\nlines\n"),
    ("  0%|\r 50%|\r100%|\n", "100%|\n"),
    ("windows\r\nlines\r\n", "windows\nlines\n"),
    ("a\r\r\nb", "a\nb"),
    ("step 1\n10%\r20%\rTraceback\nerror\n", "step 1\nTraceback\nerror\n"),
    ("90%\r\n", "90%\n"),
    ("left off\rat 20%", "at 20%"),
    ("left off\r", "left off"),
    ("\n\n", "\n\n"),
    ("", ""),
    ("\x1b[1m\x1b[31mred\x1b[0m\n", "red\n"),
    ("download\x1b[?25l 1%\x1b[10G99%\x1b[?25h\n", "download 99%\n"),
    ("abc\x08\x08X\n", "aXc\n"),
    ("long state\r\x1b[Kdone\n", "done\n"),
    ("outer 0\n\rinner 0\x1b[A\router 1\n\rinner 1\x1b[A\n\n", "outer 1\ninner 1\n"),
    ("one\ntwo\n\x1b[2Anew\n", "new\ntwo\n"),
    ("one\ntwo\n\x1b[2A\x1b[Jnew\n", "new\n"),
    ("\x1b[9A\x1b[9Dat the top\n", "at the top\n"),
    ("not a cursor: \x1b]8;;x\x07\n", "not a cursor: \x1b]8;;x\x07\n"),
    ("\x1b[", "\x1b["),
]


def collapse_progress(text: str) -> str:
    """Collapse the text in one call."""
    return "".join(LineCollapser().feed(text, final=True))


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_redrawn_line_is_reduced_to_its_last_state(text, shown):
    assert collapse_progress(text) == shown


@given(st.text(alphabet="ab\r\n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_collapsing_in_pieces_gives_the_same_text(text, cuts):
    collapser, shown, at = LineCollapser(), "", 0
    for cut in [*sorted(cuts), len(text)]:
        shown += "".join(collapser.feed(text[at:cut]))
        at = max(at, cut)
    shown += "".join(collapser.feed("", final=True))
    assert shown == collapse_progress(text)


@given(st.text(alphabet="ab\r\n", max_size=40))
def test_collapsing_twice_changes_nothing(text):
    once = collapse_progress(text)
    assert collapse_progress(once) == once
    assert "\r" not in once


def test_a_very_long_line_is_returned_in_parts():
    collapser = LineCollapser()
    given_out = "".join(piece for _ in range(30) for piece in collapser.feed("x" * 100_000))
    assert len(given_out) > 1_000_000


def test_nested_bars_are_held_back_while_the_output_goes_up_and_down():
    collapser = LineCollapser()
    shown = list(collapser.feed("begin\n"))
    assert shown == ["begin\n"], "a plain line is given out at once"
    for at in range(50):
        shown += collapser.feed(f"\router {at}\n")
        shown += collapser.feed(f"\rinner {at}\x1b[")
        shown += collapser.feed("A")
    shown += collapser.feed("\r\x1b[Kepoch 1 done\n\router 50\n\rinner 50\x1b[A", final=True)
    assert len(shown) <= 5 and shown[-3:] == ["epoch 1 done\n", "outer 50\n", "inner 50"]


@given(st.text(alphabet="ab\r\n\x08\x1b[2AKJ", max_size=60), st.integers(0, 60))
def test_no_sequence_is_left_and_none_is_cut_by_a_piece(text, cut):
    collapser = LineCollapser()
    shown = "".join([*collapser.feed(text[:cut]), *collapser.feed(text[cut:], final=True)])
    assert not {"\r", "\x08"} & set(shown)
    assert "\x1b[A" not in shown and "\x1b[2K" not in shown


HOSTILE = {
    "columns": "\x1b[9999C.\n",
    "columns by number": "\x1b[9999G.\n",
    "rows down": "\x1b[9999B",
    "rows down from a column": "\x1b[99C\x1b[B.",
    "rows down from the end of a long row": "x" * 60_000 + "\x1b[B." * 10_000,
    "rows up": "\n\x1b[9999A",
    "rows up and text": "." * 100 + "\x1b[A",
    "rows up and down": "\n\x1b[99A.\x1b[99B.",
    "erased": "\x1b[499C\x1b[1K\x1b[B",
    "long parameter": "\x1b[" + "9" * 60_000,
    "endless row": "\x08.x",
    "backspaces": "xxxxxxx\x08",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_cursor_codes_take_little_memory(text: str) -> None:
    text *= max(1, 2**17 // len(text))
    collapser, shown = LineCollapser(), 0
    tracemalloc.start()
    try:
        shown += sum(map(len, collapser.feed(text)))
        shown += sum(map(len, collapser.feed("", final=True)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20, f"{peak / 2**20:.0f} MiB for 128 KiB of text"
    assert shown < 150 * len(text)


def test_rows_beyond_the_reach_of_the_cursor_are_given_out() -> None:
    collapser = LineCollapser()
    shown = "".join(line for _ in range(300) for line in collapser.feed("a\n\x1b[40A\x1b[40A\x1b[40Ab\x1b[99B\n"))
    assert shown.count("\n") > 300


@pytest.mark.parametrize("digits", [33, 5000])
def test_a_code_with_too_many_digits_is_text(digits: int) -> None:
    text = f"a\x1b[{'9' * digits}Cb\n"
    assert collapse_progress(text) == text
    collapser = LineCollapser()
    assert "".join([*collapser.feed(text[:-3]), *collapser.feed(text[-3:], final=True)]) == text


def test_a_backspace_in_a_long_row_moves_by_one_column() -> None:
    assert collapse_progress("x" * 3000 + "\x08Y\n") == "x" * 2999 + "Y\n"


@pytest.mark.parametrize("unit", ["a\x08", "x\x1b[D", "\x1b[1G\x1b[500Ca"])
def test_SE_codes_in_a_wide_row_copy_little(unit: str) -> None:
    """Every code copies its row, so the length of a row limits the time that a hostile output takes."""
    collapser, widest = LineCollapser(), 0
    for piece in ("\U0001f600" * 60_000, unit * 10_000):
        for _ in collapser.feed(piece):
            pass
        widest = max(widest, *(len(row) for row in collapser._rows))
    assert widest <= 2**13
