"""An evaluation that a host or a cloned project wrote has as few models and metrics as a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.saved import read_evaluation
from remote.protocol.evaluation import RESULT, EvaluationResult
from remote.protocol.values import Malformed, decode


def scores(*models: str, metrics: int = 1, letters: int = 1) -> dict[str, Any]:
    values = {f"{number:0{letters}}": {"value": 0.5} for number in range(metrics)}
    return {"scores": [{"model": model, "metrics": values} for model in models], "recordings": 1, "answers": 1}


@pytest.mark.parametrize("models", [("adapter",), ("base", "adapter"), ()])
def test_SE_the_scores_of_an_adapter_and_its_base_model_are_read(models: tuple[str, ...]) -> None:
    found = decode(EvaluationResult, scores(*models, metrics=200, letters=100))
    assert [one.model for one in found.scores] == list(models)


@pytest.mark.parametrize(
    "data",
    [
        scores("adapter", "other"),
        scores("adapter", "adapter"),
        scores("adapter", "base", "adapter"),
        scores("adapter", metrics=201),
        scores("adapter", letters=101),
    ],
)
def test_SE_more_models_or_metrics_are_rejected(data: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="scores"):
        decode(EvaluationResult, data)


def test_SE_a_planted_evaluation_of_many_models_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / RESULT).write_text(json.dumps(scores(*(str(number) for number in range(28_000)))))
    assert read_evaluation(tmp_path) is None
    (tmp_path / RESULT).write_text(json.dumps(scores("adapter", "base")))
    assert read_evaluation(tmp_path) is not None
