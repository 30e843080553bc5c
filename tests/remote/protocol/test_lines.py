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
]


def collapse_progress(text: str) -> str:
    """Collapse the text in one call."""
    return "".join(LineCollapser().feed(text, final=True))


@pytest.mark.parametrize(("text", "shown"), CASES)
def test_a_redrawn_line_has_its_last_state(text, shown):
    assert collapse_progress(text) == shown


@given(st.text(alphabet="ab\r\n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_pieces_show_the_same_as_the_whole(text, cuts):
    collapser, shown, at = LineCollapser(), "", 0
    for cut in [*sorted(cuts), len(text)]:
        shown += "".join(collapser.feed(text[at:cut]))
        at = max(at, cut)
    shown += "".join(collapser.feed("", final=True))
    assert shown == collapse_progress(text)


@given(st.text(alphabet="ab\r\n", max_size=40))
def test_showing_again_changes_nothing(text):
    once = collapse_progress(text)
    assert collapse_progress(once) == once
    assert "\r" not in once


def test_a_line_without_end_is_returned_in_parts():
    collapser = LineCollapser()
    given_out = "".join(piece for _ in range(30) for piece in collapser.feed("x" * 100_000))
    assert len(given_out) > 1_000_000
