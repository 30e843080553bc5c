"""What the adapter is worth, from the last evaluation: correlations per aspect, error rates, F1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.report.curves import Curve
from pipeline.report.panels import is_evaluation, last_part

CORRELATIONS = ("pearson", "spearman")
NAMES = {
    "wer": "word error rate",
    "per": "phone error rate",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "answered": "answers of the asked form",
}


@dataclass(frozen=True)
class Aspect:
    """One aspect that was scored, with its correlations against people; None where it is not defined."""

    name: str
    pearson: float | None = None
    spearman: float | None = None


@dataclass(frozen=True)
class Scores:
    """The last value of everything that was evaluated, and the optimizer step it is of."""

    step: int
    aspects: tuple[Aspect, ...] = ()
    others: tuple[tuple[str, float], ...] = ()


def judge_scores(curves: Iterable[Curve]) -> Scores | None:
    """The scores among the curves, None where nothing was evaluated; the evaluation loss is a curve and no score."""
    told = [curve for curve in curves if is_evaluation(curve.tag) and last_part(curve.tag) not in ("loss", "eval_loss")]
    told = [curve for curve in told if curve.finite]
    if not told:
        return None
    aspects: dict[str, dict[str, float]] = {}
    others = []
    for curve in told:
        folder, _, metric = curve.tag.rpartition("/")
        if metric.lower() in CORRELATIONS:
            aspects.setdefault(folder.rpartition("/")[2], {})[metric.lower()] = curve.last
        else:
            others.append((_say(curve.tag), curve.last))
    rows = tuple(Aspect(name, row.get("pearson"), row.get("spearman")) for name, row in sorted(aspects.items()))
    return Scores(max(curve.points[-1][0] for curve in told), rows, tuple(others))


def _say(tag: str) -> str:
    """`eval/mdd/wer` as a person would say it."""
    parts = [part for part in tag.split("/") if part not in ("eval", "test", "validation")]
    metric = parts[-1].removeprefix("eval_")
    return " · ".join([*(part.upper() for part in parts[:-1]), NAMES.get(metric, metric.replace("_", " "))])
