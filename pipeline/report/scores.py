"""The scores of the last evaluation: correlations per aspect, error rates, F1."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.report.curves import Curve
from pipeline.report.panels import is_bookkeeping, is_evaluation, last_part
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import VARIANTS

VALIDATION_LOSS = "validation loss"
LOSSES = ("loss", "eval_loss")
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
    """The correlations of one aspect with human scores. An undefined correlation is None."""

    name: str
    pearson: float | None = None
    spearman: float | None = None


@dataclass(frozen=True)
class Scores:
    """The last value of every evaluated metric, and the optimizer step of the last evaluation."""

    step: int
    aspects: tuple[Aspect, ...] = ()
    others: tuple[tuple[str, float], ...] = ()


def judge_scores(curves: Iterable[Curve]) -> Scores | None:
    """Return the scores among the curves, and the validation loss. Returns None if no curve is a score."""
    found = [curve for curve in curves if is_evaluation(curve.tag) and curve.finite]
    losses = [curve for curve in found if last_part(curve.tag) in LOSSES]
    scored = [curve for curve in found if _is_score(curve.tag)]
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
    others += [(VALIDATION_LOSS, curve.last) for curve in losses[:1]]
    rows = tuple(Aspect(name, row.get("pearson"), row.get("spearman")) for name, row in sorted(aspects.items()))
    return Scores(max(curve.points[-1][0] for curve in scored), rows, tuple(others))


def _is_score(tag: str) -> bool:
    return last_part(tag) not in LOSSES and not is_bookkeeping(tag) and not tag.endswith(VARIANTS)


def _label(tag: str) -> str:
    """Return 'MDD · word error rate' for `eval/mdd/wer`."""
    parts = [part for part in tag.split("/") if part not in ("eval", "test", "validation")]
    metric = parts[-1].removeprefix("eval_")
    return " · ".join([*(part.upper() for part in parts[:-1]), NAMES.get(metric, metric.replace("_", " "))])
