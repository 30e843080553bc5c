"""Trackers besides TensorBoard: transformers' callbacks in threads, so that they cannot delay or stop training."""

from __future__ import annotations

import importlib
import logging
import os
import queue
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from transformers import TrainerCallback
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

TENSORBOARD = "tensorboard"
FINISH_S = 60.0
STOP_S = 5.0
log = logging.getLogger("halfstep")
Make = Callable[[str], Any]


class Tracker(TrainerCallback):  # type: ignore[misc]
    """Passes the events of a Trainer to a tracker's callback in order. The callback's first error ends the tracking."""

    def __init__(self, name: str, make: Make) -> None:
        self.name = name
        self.ended = threading.Event()
        self._events: queue.SimpleQueue[Optional[Callable[[Any], None]]] = queue.SimpleQueue()
        # The thread is a daemon, so that the process can end while a request waits for an unreachable server.
        threading.Thread(target=self._work, args=(make,), name=name, daemon=True).start()

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._send("on_train_begin", args, state, control, model=model)

    def on_log(self, args: Any, state: Any, control: Any, model: Any = None, logs: Any = None, **kwargs: Any) -> None:
        self._send("on_log", args, state, control, model=model, logs=dict(logs or {}))

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._send("on_train_end", args, state, control, model=model)

    def close(self) -> None:
        """End the thread after all queued events."""
        self._events.put(None)

    def _send(self, event: str, args: Any, state: Any, control: Any, **options: Any) -> None:
        if self.ended.is_set():
            return
        # The state is copied, because the Trainer changes it while the event waits in the queue.
        seen = type(state)(global_step=state.global_step, epoch=state.epoch, max_steps=state.max_steps)
        seen.is_world_process_zero, seen.is_local_process_zero = True, True
        self._events.put(lambda callback: getattr(callback, event)(args, seen, control, **options))

    def _work(self, make: Make) -> None:
        try:
            callback = make(self.name)
            for event in iter(self._events.get, None):
                event(callback)
            _finish(self.name)
        except Exception as error:  # noqa: BLE001 - a tracker must never end training
            message = str(error).strip().splitlines() or [type(error).__name__]
            log.warning("%s: tracking has ended, the training continues: %s", self.name, message[0][:300])
        finally:
            self.ended.set()


def start_trackers(names: Sequence[str], run: str, make: Optional[Make] = None) -> List[Tracker]:
    """Return a tracker for each name except TensorBoard, which is always written. Return no trackers in a proof."""
    enabled = [name for name in dict.fromkeys(names) if name != TENSORBOARD]
    if not enabled or "HALFSTEP_PROOF" in os.environ:
        return []
    for variable, value in defaults(run).items():
        os.environ.setdefault(variable, value)
    return [Tracker(name, make or (lambda name: INTEGRATION_TO_CALLBACK[name]())) for name in enabled]


def name_run(arguments: Any, run: str) -> None:
    """Set the run's name, which the trackers show."""
    arguments.run_name = os.path.basename(run)
    arguments.project = os.environ.get("TRACKIO_PROJECT", "halfstep")
    arguments.trackio_space_id = os.environ.get("TRACKIO_SPACE_ID")


def defaults(run: str) -> Dict[str, str]:
    """Return default environment variables for the trackers: names, folders and short deadlines.

    A job that resumes continues the same run of W&B. The output is not captured, because it may contain secrets.
    """
    return {
        "WANDB_PROJECT": "halfstep",
        "WANDB_RUN_ID": os.path.basename(run),
        "WANDB_RESUME": "allow",
        "WANDB_DIR": run,
        "WANDB_CONSOLE": "off",
        "WANDB_SILENT": "true",
        "MLFLOW_EXPERIMENT_NAME": "halfstep",
        "MLFLOW_TRACKING_URI": f"sqlite:///{run}/mlflow.db",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "TRACKIO_DIR": os.path.join(run, "trackio"),
    }


def close_trackers(trackers: Sequence[Tracker], limit_s: float) -> List[str]:
    """Wait until everything is sent, for at most `limit_s` in total. Return the trackers that are still sending."""
    end = time.monotonic() + limit_s
    for tracker in trackers:
        tracker.close()
    unfinished = [tracker.name for tracker in trackers if not tracker.ended.wait(max(0.0, end - time.monotonic()))]
    for name in unfinished:
        log.warning("%s: not everything was sent within %.0f s; its last values may be missing", name, limit_s)
    return unfinished


def _finish(name: str) -> None:
    """Upload the data that W&B has not sent.

    Without this call, W&B would upload it at the end of the process, without a limit.
    """
    if name == "wandb" and "wandb" in sys.modules:
        importlib.import_module("wandb").finish()
