"""An answer in the requested form is parsed; for any other answer the result is None."""

from __future__ import annotations

import pytest

from remote.payload.training.prompts import CONTROL, PROMPTS, Transcript, parse_scores, parse_transcript, target_of
from remote.payload.training.recordings import Recording

SCORED = Recording(
    "r", bytes, "SHE Sells", ("SH", "IY"), ("S", "IY"), {"accuracy": 7, "fluency": 8.4, "prosodic": 9, "total": 10}
)


def test_each_prompt_begins_with_its_control_token() -> None:
    assert all(PROMPTS[task].startswith(CONTROL[task]) for task in ("apa", "mdd"))
    assert len(PROMPTS["apa"]) > 5 * len(PROMPTS["mdd"])


def test_parsing_a_target_gives_the_annotation_it_was_made_from() -> None:
    assert parse_scores(target_of("apa", SCORED) or "") == {"accuracy": 7, "fluency": 8, "prosodic": 9, "total": 10}
    assert parse_transcript(target_of("mdd", SCORED) or "") == Transcript(("she", "sells"), ("S", "IY"))


def test_a_recording_without_annotation_has_no_target() -> None:
    assert target_of("apa", Recording("r", bytes, scores={"accuracy": 7})) is None
    assert target_of("mdd", Recording("r", bytes, text="she sells")) is None


@pytest.mark.parametrize(
    ("answer", "parsed"),
    [
        ("accuracy 1, fluency 2, prosodic 3, total 4", True),
        ("Sure! accuracy 1, fluency 2, prosodic 3, total 4.", True),
        ("accuracy 1, fluency 2, prosodic 3", False),
        ("accuracy 11, fluency 2, prosodic 3, total 4", False),
        ("accuracy one, fluency 2, prosodic 3, total 4", False),
        ("", False),
    ],
)
def test_scores_are_parsed_only_in_the_requested_form(answer: str, parsed: bool) -> None:
    assert (parse_scores(answer) is not None) is parsed


@pytest.mark.parametrize(
    ("answer", "parsed"),
    [
        ("text: a b\nphones: AH B", Transcript(("a", "b"), ("AH", "B"))),
        (" text: a\nphones:", Transcript(("a",), ())),
        ("phones: AH", None),
        ("a b", None),
    ],
)
def test_transcripts_are_parsed_only_in_the_requested_form(answer: str, parsed: Transcript | None) -> None:
    assert parse_transcript(answer) == parsed
