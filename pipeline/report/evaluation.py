"""The result of an evaluation as a table: a row for each metric, a column for each model and published result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipeline.report.published import CLOSEST, PUBLISHED, SOURCE, UNTUNED, PublishedRow, differences, is_comparable
from remote.protocol.evaluation import ADAPTER, BASE, INTERVAL, VARIANTS, Estimate, EvaluationResult
from remote.protocol.training import TASKS
from remote.protocol.values import encode

MISSING = "-"
LABELS = {
    "wer": "word error rate",
    "per": "phone error rate",
    "cer": "character error rate",
    "exact": "exact matches",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "answered": "well-formed answers",
    "pearson": "Pearson",
    "spearman": "Spearman",
}
ORDER = ("answered", "", "accuracy", "fluency", "prosodic", "total", "wer", "per", "cer", "exact", "f1", "precision",
         "recall", "pearson", "spearman")  # fmt: skip
EXPONENT_FROM = 1e6
"""Scores of at least this value are written with an exponent, so that a value from the host cannot widen the table."""
HEADINGS = {ADAPTER: "adapter", BASE: "base model"}


def headings(result: EvaluationResult) -> tuple[str, ...]:
    """Return the headings of the table's columns."""
    published = (f"paper: {row.name}" for row in _published(result))
    return ("", *(HEADINGS.get(scores.model, scores.model) for scores in result.scores), *published)


def _published(result: EvaluationResult) -> tuple[PublishedRow, ...]:
    """Return the published rows to show next to the scores, or () if the evaluation has no metric of the paper."""
    return (CLOSEST, UNTUNED) if is_comparable(result) else ()


def table(result: EvaluationResult, *, variants: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield a row for each metric.

    With `variants`, include the metrics over all answers and over well-formed answers.
    """
    published = [row.metrics for row in _published(result)]
    for name in sorted(result.scores[0].metrics if result.scores else (), key=_place):
        if name.endswith(VARIANTS) and not variants:
            continue
        ours = (format_estimate(scores.metrics.get(name, Estimate(None))) for scores in result.scores)
        yield label(name), *ours, *(_number(row.get(name)) for row in published)


def explain_missing(result: EvaluationResult) -> Iterator[str]:
    """Yield one line for each reason why the table contains `-` instead of a value."""
    names = [name for name in (result.scores[0].metrics if result.scores else ()) if not name.endswith(VARIANTS)]
    ours = [scores.metrics.get(name) for name in names for scores in result.scores]
    if any(estimate is None or estimate.value is None for estimate in ours):
        yield "a dash means undefined; for example, a correlation needs two well-formed answers with different scores"
    if any(name not in row.metrics for name in names for row in _published(result)):
        yield "a dash in a column of the paper means that the paper does not report this metric"


def _place(name: str) -> tuple[str | int, ...]:
    """Return the sort key of a metric: by task, then the share of answers, then by aspect and measure."""
    task, parts = _parts(name)
    words = (task, parts[0] if len(parts) > 1 else "", parts[-1].partition("_")[0])
    return (task, *(ORDER.index(word) if word in ORDER else len(ORDER) for word in words[1:]), len(name))


def _parts(name: str) -> tuple[str, list[str]]:
    """Return the task of a metric, and the other parts of its name.

    If the name has only one part, return that part for both.
    """
    task, *parts = name.split("/")
    return task, parts or [task]


def label(name: str) -> str:
    """Return 'fluency, Pearson' for `apa/fluency/pearson`."""
    task, parts = _parts(name)
    suffix = next((suffix for suffix in VARIANTS if name.endswith(suffix)), "")
    last = parts[-1].removesuffix(suffix)
    over = {"_all": " over all", "_answered": " over well-formed answers", "": ""}[suffix]
    place = parts[0] if len(parts) > 1 else task.upper() if task in TASKS else task
    return f"{place}, {LABELS.get(last, last)}{over}"


def format_estimate(estimate: Estimate) -> str:
    """Return '0.656 [0.62, 0.69]', or '0.656' if there is no interval."""
    if estimate.low is None or estimate.high is None:
        return _number(estimate.value)
    return f"{_number(estimate.value)} [{_number(estimate.low, 2)}, {_number(estimate.high, 2)}]"


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return MISSING
    return f"{value:.{digits}f}" if abs(value) < EXPONENT_FROM else f"{value:.3g}"


def describe(result: EvaluationResult) -> str:
    """Return one line with the evaluated samples and the generation settings."""
    intervals = f", {INTERVAL * 100:g} % intervals from {result.resamples} resamples" if result.resamples else ""
    return (
        f"{result.recordings} recordings of {result.data or 'the data'} ({result.split}), {result.answers} answers, "
        f"{result.decoding} decoding in {result.precision}{intervals}"
    )


def evaluation_as_json(result: EvaluationResult) -> dict[str, Any]:
    """Return the result, the published rows, and the differences between this evaluation and the paper's experiment."""
    if not is_comparable(result):
        return dict(encode(result))
    rows = [{"name": row.name, "metrics": row.metrics} for row in PUBLISHED]
    published = {"source": SOURCE, "differs": list(differences(result)), "rows": rows}
    return {**encode(result), "published": published}
