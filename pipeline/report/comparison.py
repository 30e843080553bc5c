"""Compare runs: tables of results, settings, files and machines, with one value for each run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.records.run_inputs import RunInputs
from pipeline.report.curves import Curve, smooth
from pipeline.report.evaluation import format_estimate, label
from pipeline.report.formatting import duration, number
from pipeline.report.model import RunReport
from pipeline.report.page import curves_of, last_values, shown_loss
from pipeline.report.panels import last_part
from pipeline.report.scores import VALIDATION_LOSS, judge_scores
from remote.protocol.dataclass import dataclass, field
from remote.protocol.evaluation import ADAPTER, VARIANTS, Estimate
from remote.protocol.loss import loss_text
from remote.protocol.quantities import memory

ABSENT = "–"
NOT_SET = "not set"
DIGEST_LETTERS = 8


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison, with its scalars. `inputs` is None if no inputs were recorded."""

    report: RunReport
    inputs: RunInputs | None = None

    @property
    def curves(self) -> tuple[Curve, ...]:
        """Return the curves of the run."""
        return curves_of(self.report)


@dataclass(frozen=True)
class ComparedRow:
    """A row of a table: a name, and one value for each run."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Return True if not all runs have the same value."""
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class Comparison:
    """A comparison of runs.

    `results` has every row; the other tables have only rows that differ. `unknown` are the runs without recorded
    inputs.
    """

    runs: tuple[ComparedRun, ...]
    results: tuple[ComparedRow, ...] = ()
    settings: tuple[ComparedRow, ...] = ()
    files: tuple[ComparedRow, ...] = ()
    machines: tuple[ComparedRow, ...] = ()
    unknown: tuple[str, ...] = field(default=())


def compare(runs: Sequence[ComparedRun]) -> Comparison:
    """Return the differences. Inputs are compared only if they were recorded for every run."""
    inputs = [run.inputs for run in runs if run.inputs is not None]
    known = inputs if len(inputs) == len(runs) else []
    return Comparison(
        tuple(runs),
        tuple(_rows([_results(run) for run in runs])),
        tuple(_differing([_flat(one.settings) for one in known])),
        tuple(_differing([{path: found[:DIGEST_LETTERS] for path, found in one.files.items()} for one in known])),
        tuple(_differing([{**one.others, **_source(one)} for one in known])),
        tuple(run.report.run for run in runs if run.inputs is None),
    )


def _differing(runs: Sequence[Mapping[str, str]]) -> Iterator[ComparedRow]:
    return (row for row in _rows(runs) if row.differs)


def _rows(runs: Sequence[Mapping[str, str]]) -> Iterator[ComparedRow]:
    """Yield a row for each name, in the order of first occurrence."""
    for name in {name: None for run in runs for name in run}:
        yield ComparedRow(name, tuple(run.get(name, ABSENT) for run in runs))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the value of each setting as text, by key such as `a.b`."""
    flat: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = _setting(value)
    return flat


def _setting(value: Any) -> str:
    if value is None:
        return NOT_SET
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _source(inputs: RunInputs) -> dict[str, str]:
    return {"git commit": inputs.commit[:DIGEST_LETTERS]} if inputs.commit else {}


def _results(run: ComparedRun) -> dict[str, str]:
    """Return the known values among state, progress, losses, measurements and scores of a run."""
    report, curves = run.report, run.curves
    loss, lowest = shown_loss(report, curves)
    last = last_values(curves)
    known: list[tuple[str, Any, Callable[[Any], str]]] = [
        ("state", report.verdict.value, str),
        ("host", report.host, str),
        ("card", report.card or None, str),
        ("precision", report.precision.partition(":")[0] or None, str),
        ("optimizer steps", report.step, number),
        ("time", report.seconds, duration),
        ("loss", loss, loss_text),
        ("lowest loss", lowest, loss_text),
        (VALIDATION_LOSS, _validation_loss(curves), loss_text),
        ("skipped steps", last.get("skipped_steps"), number),
        ("tokens per second", _speed(curves), number),
        ("peak memory", last.get("peak_memory"), memory),
    ]
    return {name: show(value) for name, value, show in known if value is not None} | dict(_scores(report, curves))


def _validation_loss(curves: Sequence[Curve]) -> float | None:
    found = [curve for curve in curves if curve.tag.lower() in ("eval/loss", "eval_loss") and curve.finite]
    return found[0].finite[-1][1] if found else None


def _speed(curves: Sequence[Curve]) -> float | None:
    """Return the mean of the tokens per second over the newest steps, or None. The chart shows the same mean."""
    found = [curve for curve in curves if last_part(curve.tag) == "tokens_per_second" and curve.finite]
    return smooth(found[0]).last if found else None


def is_shown(name: str, estimate: Estimate) -> bool:
    """Return True for a metric that is defined and is not a variant of another metric."""
    return estimate.value is not None and not name.endswith(VARIANTS)


def _scores(report: RunReport, curves: Sequence[Curve]) -> Iterator[tuple[str, str]]:
    """Yield the adapter's scores from `pipeline evaluate`, else from the evaluation during training."""
    if report.evaluation is not None:
        for scores in report.evaluation.scores:
            if scores.model == ADAPTER:
                found = sorted(scores.metrics.items())
                yield from ((label(name), format_estimate(one)) for name, one in found if is_shown(name, one))
        return
    found_scores = judge_scores(curves)
    for aspect in found_scores.aspects if found_scores else ():
        for name, value in (("Pearson", aspect.pearson), ("Spearman", aspect.spearman)):
            if value is not None:
                yield f"{aspect.name}, {name}", f"{value:.3f}"
    others = found_scores.others if found_scores else ()
    yield from ((name, number(value)) for name, value in others if name != VALIDATION_LOSS)
