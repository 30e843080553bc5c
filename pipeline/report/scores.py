"""The scores of the last evaluation: correlations per aspect, error rates, F1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.report.curves import Curve
from pipeline.report.panels import is_evaluation, last_part
from remote.protocol.evaluation import VARIANTS

CORRELATIONS = ("pearson", "spearman")
NAMES = {
    "wer": "word error rate",
    "per": "phone error rate",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "answered": "well-formed answers",
}


@dataclass(frozen=True)
class Aspect:
    """The correlations of one aspect with human scores; None if undefined."""

    name: str
    pearson: float | None = None
    spearman: float | None = None


@dataclass(frozen=True)
class Scores:
    """The last value of every evaluated metric, and its optimizer step."""

    step: int
    aspects: tuple[Aspect, ...] = ()
    others: tuple[tuple[str, float], ...] = ()


def judge_scores(curves: Iterable[Curve]) -> Scores | None:
    """Return the scores among the curves, or None if there are none. The evaluation loss is not a score."""
    scored = [
        curve for curve in curves if is_evaluation(curve.tag) and last_part(curve.tag) not in ("loss", "eval_loss")
    ]
    scored = [curve for curve in scored if curve.finite and not curve.tag.endswith(VARIANTS)]
    if not scored:
        return None
    aspects: dict[str, dict[str, float]] = {}
    others = []
    for curve in scored:
        folder, _, metric = curve.tag.rpartition("/")
        if metric.lower() in CORRELATIONS:
            aspects.setdefault(folder.rpartition("/")[2], {})[metric.lower()] = curve.last
        else:
            others.append((_label(curve.tag), curve.last))
    rows = tuple(Aspect(name, row.get("pearson"), row.get("spearman")) for name, row in sorted(aspects.items()))
    return Scores(max(curve.points[-1][0] for curve in scored), rows, tuple(others))


def _label(tag: str) -> str:
    """Return 'MDD · word error rate' for `eval/mdd/wer`."""
    parts = [part for part in tag.split("/") if part not in ("eval", "test", "validation")]
    metric = parts[-1].removeprefix("eval_")
    return " · ".join([*(part.upper() for part in parts[:-1]), NAMES.get(metric, metric.replace("_", " "))])
