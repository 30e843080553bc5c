"""Nobody is asked to confirm a text that is too long to be read whole."""

from __future__ import annotations

import pytest

from remote.link.prompter import LONGEST, confirms
from tests.lab.answers import Person


@pytest.mark.parametrize(
    ("subject", "question"),
    [("./" * LONGEST + "data", "May it be sent?"), ("data", f"May it be sent to {'x' * LONGEST}?")],
    ids=["subject", "question"],
)
def test_a_text_that_is_too_long_is_not_confirmed(subject: str, question: str) -> None:
    user = Person()
    assert not confirms(user, subject, question)
    assert user.questions == []


def test_a_text_is_shown_whole_on_one_line() -> None:
    user = Person()
    assert confirms(user, "a\nb", "May it be sent?")
    assert user.questions == ["a\\nb.\nMay it be sent?"]
    assert not confirms(None, "a", "May it be sent?")
