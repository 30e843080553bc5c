"""Progress reports of a fixer that changes the host, as the listener receives them."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from fixers.frame.change import HostChange
from pipeline.runs.host_changes import apply_host_change
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener


class Notebook(NoListener):
    """A listener that records its calls."""

    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.lines.append(("progress", text))

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.lines.append(("detail", text, done, total))

    def note(self, text: str, command: str = "") -> None:
        self.lines.append(("note", text))


def downloads(remote: int, **known: Any) -> dict[str, Any]:
    plain = {"packages": 36, "largest": "torch 2.13.0", "remote_bytes": remote, "local_bytes": 0, "unknown": 0}
    return {"downloads": {**plain, **known}, "free_bytes": 41 * 10**9}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"doing": "collecting torch"}, ("detail", "collecting torch", None, None)),
        ({"doing": "downloading torch", "done": 5, "total": 10}, ("detail", "downloading torch", 5.0, 10.0)),
        ({"doing": "downloading torch", "done": 0, "total": 10}, ("detail", "downloading torch", 0.0, 10.0)),
        ({"note": "resumed"}, ("note", "resumed")),
        (
            downloads(2_600_000_000),
            ("note", "36 packages (torch 2.13.0 is the largest): 2.6 GB to download; 41.0 GB are free"),
        ),
        (
            downloads(2_600_000_000, unknown=2),
            ("note", "36 packages (torch 2.13.0 is the largest): at least 2.6 GB to download; 41.0 GB are free"),
        ),
        (downloads(0, packages=1), ("detail", "1 package: 0 B to download; 41.0 GB are free", None, None)),
        ({"from": "a newer payload"}, None),
        ({"doing": "pip", "done": -5, "total": 10}, ("detail", "pip", 0.0, 10.0)),
        ({"doing": "pip", "done": inf, "total": nan}, ("detail", "pip", None, None)),
        ({"doing": "pip", "done": 10**400, "total": -1}, ("detail", "pip", None, None)),
        (
            downloads(-1, packages=inf, unknown=nan),
            ("detail", "0 packages: 0 B to download; 41.0 GB are free", None, None),
        ),
        ({"downloads": {"packages": "many"}}, ("detail", "0 packages: 0 B to download", None, None)),
    ],
)
def test_what_the_host_reports_reaches_the_listener(event: dict[str, Any], line: tuple[object, ...] | None) -> None:
    host = FakeHost(operations={"op": lambda _: {}}, streams={"op": [event]})
    notebook = Notebook()
    apply_host_change(HostChange("environment", "make venv", "op"), host, notebook)
    assert notebook.lines == [("progress", "make venv"), *([line] if line else [])]
