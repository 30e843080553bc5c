"""Words that a file is searched for before a pattern."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixers.frame import modules
from fixers.sources.file_roles import SCALES, TRAINS, TRAINS_SURELY, never_trains
from fixers.sources.flash_imports import IMPORTS, PATCHES
from fixers.sources.lines import LinePattern

SCRIPT = b'import torch\n\nprint(1)\n%b\nif __name__ == "__main__":\n    print(2)\n'


PATTERNS = (SCALES, modules.TRAINS, modules.DYNAMIC, modules.PARSES, modules.HALF, IMPORTS, PATCHES)


@pytest.mark.parametrize("searched", [*PATTERNS, LinePattern(TRAINS.pattern, (*TRAINS.words, *TRAINS_SURELY))])
@given(data=st.data())
def test_every_match_is_on_one_line_that_contains_a_word_that_is_searched_for_first(searched, data) -> None:
    text = data.draw(st.from_regex(searched.pattern, fullmatch=True))
    assert any(word in text for word in searched.words)
    assert b"\n" not in text


@given(st.from_regex(TRAINS.pattern, fullmatch=True).filter(lambda text: b"\r" not in text))
def test_every_form_of_training_code_is_recognised(text: bytes) -> None:
    assert never_trains("export.py", SCRIPT % b"")
    assert not never_trains("export.py", SCRIPT % text)
