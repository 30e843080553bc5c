"""Words that a file is searched for before the pattern of training code."""

from hypothesis import given
from hypothesis import strategies as st

from fixers.sources.file_roles import TRAINING_WORDS, TRAINS, TRAINS_SURELY, never_trains

SCRIPT = b'import torch\n\nprint(1)\n%b\nif __name__ == "__main__":\n    print(2)\n'


@given(st.from_regex(TRAINS, fullmatch=True))
def test_every_text_of_training_contains_a_word_that_is_searched_for_first(text: bytes) -> None:
    assert any(word in text for word in (*TRAINS_SURELY, *TRAINING_WORDS))
    assert b"\n" not in text


@given(st.from_regex(TRAINS, fullmatch=True).filter(lambda text: b"\r" not in text))
def test_every_form_of_training_code_is_recognised(text: bytes) -> None:
    assert never_trains("export.py", SCRIPT % b"")
    assert not never_trains("export.py", SCRIPT % text)
