"""A tracker gets every event in order, and neither stops nor delays a training."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState

from remote.payload.training.trackers import Tracker, close_trackers, defaults, start_trackers


@dataclass
class Recorded:
    """A tracker's callback that records what it gets; `act` runs first in every event."""

    act: Callable[[], None] = lambda: None
    events: list[tuple[Any, ...]] = field(default_factory=list)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.act()
        self.events.append(("begin", state.is_world_process_zero))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        self.act()
        self.events.append((state.global_step, logs))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.events.append(("end",))


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Without variables of trackers, and without those that a test sets."""
    for name in (*defaults("/run"), "HALFSTEP_PROOF"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


def train(tracker: Tracker, steps: int = 3) -> None:
    state, control = TrainerState(is_world_process_zero=True), TrainerControl()
    tracker.on_train_begin(None, state, control, model=None)
    for step in range(1, steps + 1):
        state.global_step = step
        tracker.on_log(None, state, control, logs={"loss": 1.0 / step})
    tracker.on_train_end(None, state, control)


def test_each_event_has_the_step_at_which_it_happened() -> None:
    go = threading.Event()
    recorded = Recorded(lambda: go.wait(60) and None)
    tracker = Tracker("any", lambda name: recorded)
    train(tracker)
    go.set()
    assert close_trackers([tracker], 60.0) == []
    assert recorded.events == [("begin", True), (1, {"loss": 1.0}), (2, {"loss": 0.5}), (3, {"loss": 1 / 3}), ("end",)]


@pytest.mark.parametrize("fails", ["making", "beginning"])
def test_an_error_ends_the_tracking_with_one_line_and_the_training_goes_on(
    fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> Any:
        raise ConnectionError("no route to host\nTraceback of the tracker")

    caplog.set_level("WARNING", "halfstep")
    tracker = Tracker("mlflow", refuse if fails == "making" else lambda name: Recorded(refuse))
    train(tracker)
    assert close_trackers([tracker], 60.0) == []
    assert caplog.messages == ["mlflow: tracking has ended, the training continues: no route to host"]


def test_a_server_that_never_answers_delays_the_end_by_the_limit_only(caplog: pytest.LogCaptureFixture) -> None:
    never = threading.Event()
    trackers = [Tracker(name, lambda name: Recorded(lambda: never.wait(60) and None)) for name in ("wandb", "mlflow")]
    began = time.monotonic()
    for tracker in trackers:
        train(tracker, steps=1000)
    assert time.monotonic() - began < 5, "the training waited for its tracker"
    assert close_trackers(trackers, 0.1) == ["wandb", "mlflow"]
    assert "wandb: not everything was sent within 0 s; its last values may be missing" in caplog.messages
    never.set()


def test_a_proof_is_not_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFSTEP_PROOF", "/reports")
    assert start_trackers(["wandb"], "/run", lambda name: Recorded()) == []


def test_tensorboard_needs_no_tracker_and_a_repeated_name_counts_once() -> None:
    started = start_trackers(["tensorboard", "mlflow", "mlflow"], "/runs/tiny-1", lambda name: Recorded())
    assert [one.name for one in started] == ["mlflow"]
    assert start_trackers(["tensorboard"], "/runs/tiny-1") == []
    close_trackers(started, 60.0)


def test_the_variables_of_the_user_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mine.example")
    close_trackers(start_trackers(["mlflow"], "/runs/tiny-1", lambda name: Recorded()), 60.0)
    assert os.environ["MLFLOW_TRACKING_URI"] == "https://mine.example"
    assert (os.environ["WANDB_RUN_ID"], os.environ["WANDB_DIR"]) == ("tiny-1", "/runs/tiny-1")


def test_a_tracker_that_is_not_installed_is_named(caplog: pytest.LogCaptureFixture) -> None:
    if "trackio" in sys.modules:
        del sys.modules["trackio"]
    [tracker] = start_trackers(["trackio"], "/runs/tiny-1")
    assert close_trackers([tracker], 60.0) == []
    assert "trackio: tracking has ended, the training continues" in caplog.text
    assert "pip install trackio" in caplog.text
