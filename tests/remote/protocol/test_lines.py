"""Only the last state of a progress bar is kept."""

from __future__ import annotations

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
