"""The answers that the ranks of a validation exchange are JSON, and nothing else is accepted."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from remote.payload.training.answers import AnswerLog
from remote.payload.training.failure import TrainingFailed


def test_the_answers_of_all_ranks_are_added(tmp_path: Path) -> None:
    first, second = AnswerLog(str(tmp_path / "1")), AnswerLog(str(tmp_path / "2"))
    first.known = {("best", "a.flac"): 'one "two" \udc80 ə', ("base", "a.flac"): ""}
    second.known = {("best", "b.flac"): "three"}
    both = {**first.known, **second.known}
    first.add(second.as_bytes())
    second.add(first.as_bytes())
    assert first.known == both
    assert second.known == both


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({("best", "a"): "x"}),
        b"",
        b"{}x",
        b"7",
        b'[["best", "a"]]',
        b'[["best", "a", 1]]',
        b'[["best", ["a"], "x"]]',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_data_that_is_not_a_list_of_answers_ends_the_training(tmp_path: Path, data: bytes) -> None:
    log = AnswerLog(str(tmp_path))
    with pytest.raises(TrainingFailed, match="share-invalid"):
        log.add(data)
    assert log.known == {}
