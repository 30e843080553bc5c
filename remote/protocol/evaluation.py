"""An evaluation of an adapter: the spec of its job, and its result."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.training import LOSS, TrainingSpec
from remote.protocol.values import Malformed

RESULT = "evaluation.json"
ANSWERS = "answers.jsonl"
ADAPTER = "adapter"
BASE = "base"
INTERVAL = 0.95
MAX_METRICS = 200
MAX_NAME = 100
ASPECTS = ("accuracy", "fluency", "prosodic", "total")
ERROR_RATES = ("wer", "per", "cer")
VARIANTS = ("_all", "_answered")
"""Suffixes of secondary metrics: computed over all answers, or only over answers in the requested format."""


def metric_names(task: str) -> Tuple[str, ...]:
    """Return the names of all metrics of a task."""
    if task == "apa":
        kinds = ("pearson", "spearman", "pearson_all", "spearman_all")
        return ("apa/answered", *(f"apa/{aspect}/{kind}" for aspect in ASPECTS for kind in kinds))
    if task == "mdd":
        names = ("wer", "per", "precision", "recall", "f1")
        return ("mdd/answered", *(f"mdd/{name}{suffix}" for suffix in ("", "_answered") for name in names))
    return (f"{task}/wer", f"{task}/cer", f"{task}/exact")


def is_lower_better(metric: str) -> bool:
    """Return True for the loss and for error rates."""
    return metric == LOSS or metric.rpartition("/")[2].split("_")[0] in ERROR_RATES


@dataclass(frozen=True)
class EvaluationSpec:
    """Everything that the evaluation job needs. `training` contains model, data, precision and decoding.

    `adapter` is an absolute folder on the host, `adapter_sha256` the expected digest of its weights. `data` is the name
    of the data set in the config.
    """

    training: TrainingSpec
    adapter: str
    adapter_sha256: str = ""
    data: str = ""


@dataclass(frozen=True)
class Estimate:
    """A metric with its bootstrap interval. A value is None if it is undefined."""

    value: Optional[float]
    low: Optional[float] = None
    high: Optional[float] = None


@dataclass(frozen=True)
class ModelScores:
    """The metrics of one model, `adapter` or `base`, by name: `apa/accuracy/pearson`, `mdd/wer`."""

    model: str
    metrics: Dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationResult:
    """The result of an evaluation, written last. `step` is the adapter's optimizer step, or 0 if it is unknown."""

    scores: Tuple[ModelScores, ...]
    recordings: int
    answers: int
    data: str = ""
    split: str = ""
    model: str = ""
    adapter_sha256: str = ""
    rank: Optional[int] = None
    step: int = 0
    decoding: str = "greedy"
    precision: str = ""
    resamples: int = 0

    def __post_init__(self) -> None:
        """Raise Malformed for more models or metrics than an evaluation has: a report has a cell for each of both."""
        models = [scores.model for scores in self.scores]
        if len(models) > len({ADAPTER, BASE}.intersection(models)):
            raise Malformed("scores: expected one row for the adapter and one for the base model")
        if any(len(scores.metrics) > MAX_METRICS for scores in self.scores):
            raise Malformed(f"scores: more than {MAX_METRICS} metrics")
        if any(len(name) > MAX_NAME for scores in self.scores for name in scores.metrics):
            raise Malformed(f"scores: a name of more than {MAX_NAME} characters")
