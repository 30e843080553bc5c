"""MLflow, W&B and Trackio themselves, with a local folder, offline, and with a server that does not answer."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.project_modules import ROOT

PYTHON = ROOT / ".venv/trackers/bin/python"
pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]


@pytest.fixture
def track(make_spec: Callable[..., Any], training: Callable[..., Any]) -> Callable[..., Any]:
    if not PYTHON.exists():
        pytest.skip("no trackers in .venv/trackers; `make test-rest` installs them")

    def run(*names: str, **environment: str) -> tuple[Path, tuple[int, str, str]]:
        spec = make_spec(report_to=names, epochs=1)
        return Path(spec.paths.run), training(spec, environment, str(PYTHON)).run()

    return run


def test_mlflow_has_the_losses_of_the_run_under_its_name(track: Callable[..., Any]) -> None:
    run, (code, out, err) = track("mlflow")
    assert code == 0 and "tracking has ended" not in out, (out, err)
    with sqlite3.connect(run / "mlflow.db") as database:
        names = [name for (name,) in database.execute("select name from runs")]
        steps = [step for (step,) in database.execute("select step from metrics where key = 'loss' order by step")]
        states = [state for (state,) in database.execute("select status from runs")]
    progress = json.loads((run / "progress.json").read_text())
    assert (names, states) == ([run.name], ["FINISHED"])
    assert steps == list(range(1, progress["steps"] + 1))


def test_wandb_keeps_an_offline_run_in_the_runs_folder(track: Callable[..., Any]) -> None:
    run, (code, out, err) = track("wandb", WANDB_MODE="offline")
    assert (code, err) == (0, ""), (out, err)
    [kept] = (run / "wandb").glob("offline-run-*")
    [file] = kept.glob("*.wandb")
    assert run.name in file.name
    assert b"learning_rate" in file.read_bytes()


def test_trackio_writes_to_the_runs_folder(track: Callable[..., Any]) -> None:
    run, (code, out, err) = track("trackio")
    assert code == 0, (out, err)
    assert "tracking has ended" not in out
    assert list((run / "trackio").glob("**/*.db"))


def test_a_server_that_accepts_and_never_answers_stops_no_training(track: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        keys = {"WANDB_BASE_URL": address, "WANDB_API_KEY": "0" * 40, "MLFLOW_TRACKING_URI": address}
        run, (code, out, err) = track("mlflow", "wandb", **keys)
    assert code == 0, (out, err)
    assert (run / "adapter/adapter_model.safetensors").exists()
    assert "mlflow: " in out and "wandb: " in out
    assert "0" * 40 not in out + err
    assert time.monotonic() - began < 300
