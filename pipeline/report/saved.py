"""Save a run's report in its folder: the values as JSON, and the HTML page rendered from them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from pipeline.records.files import write_atomic
from pipeline.records.runs import artifacts_in
from pipeline.report.model import RunReport
from pipeline.report.page import render_report
from remote.protocol.evaluation import RESULT, EvaluationResult
from remote.protocol.values import Malformed, decode, dumps
from remote.pull.live import mirrored_scalars

PAGE = "report.html"
VALUES = "report.json"


def save_report(folder: Path, report: RunReport) -> Path:
    """Write the report's values and its page into the run's folder, and return the path of the page."""
    write_atomic(folder / VALUES, dumps(report))
    return render_saved_report(folder)


def render_saved_report(folder: Path) -> Path:
    """Render the page from the saved values and the local curves and results. Raises FileNotFoundError."""
    report = decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    scalars = tuple(mirrored_scalars(folder))
    results = tuple((name, path) for name, path in artifacts_in(folder).items() if name != "report")
    evaluation = read_evaluation(folder) or report.evaluation
    page = render_report(
        replace(report, scalars=scalars, artifacts=results, evaluation=evaluation, written_unix=time.time())
    )
    write_atomic(folder / PAGE, page.encode())
    return folder / PAGE


def read_evaluation(folder: Path) -> EvaluationResult | None:
    """Return the newest result of `pipeline evaluate` in a run's folder; None if there is none."""
    try:
        return decode(EvaluationResult, json.loads((folder / RESULT).read_bytes()))
    except (OSError, ValueError, Malformed):
        return None


def read_report(folder: Path) -> RunReport | None:
    """Return the saved report of a run's folder; None if there is none that can be read."""
    try:
        return decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    except (OSError, ValueError, Malformed):
        return None


def is_reported(folder: Path) -> bool:
    """Return True if the folder has a readable saved report."""
    return read_report(folder) is not None
