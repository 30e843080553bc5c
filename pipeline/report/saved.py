"""A run's report beside the run: its values, and the page drawn from them with whatever curves are here."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from pipeline.records.files import write_whole
from pipeline.report.model import RunReport
from pipeline.report.page import render_report
from remote.protocol.values import Malformed, decode, dumps
from remote.pull.live import mirrored_scalars

PAGE = "report.html"
VALUES = "report.json"


def save_report(folder: Path, report: RunReport) -> Path:
    """The run's folder has the report's values and its page; the path of the page."""
    write_whole(folder / VALUES, dumps(report))
    return draw_report(folder)


def draw_report(folder: Path) -> Path:
    """The page is drawn anew from the kept values and the curves that are here. Raises FileNotFoundError."""
    report = decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    scalars = tuple(mirrored_scalars(folder))
    page = render_report(replace(report, scalars=scalars, written_unix=time.time()))
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def is_reported(folder: Path) -> bool:
    """There is something to draw."""
    try:
        decode(RunReport, json.loads((folder / VALUES).read_bytes()))
    except (OSError, ValueError, Malformed):
        return False
    return True
