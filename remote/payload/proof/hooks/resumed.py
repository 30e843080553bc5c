"""Find the step at which training begins, from the state of the optimizer and the saved files that were loaded."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import time
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from .foreign import result_of

STATE = "trainer_state.json"
SAVED = (
    ".pt",
    ".pth",
    ".th",
    ".bin",
    ".ckpt",
    ".tar",
    ".pkl",
    ".pickle",
    ".safetensors",
    ".distcp",
    ".metadata",
    ".json",
)
OPTIMIZER = re.compile(r"(?:^|/)optimizer[^/]*\.(?:pt|bin)$")
NUMBER = re.compile(r"(?:step|checkpoint|ckpt|iter|iteration)s?[-_=]?(\d+)(?:\.\w+)?/?$")
MOST_READS = 10_000
KERNEL_TICK_S = 0.02
LOADED: Any = weakref.WeakSet()
"""The optimizers into which the script has loaded a state that is not empty."""


@dataclass(frozen=True)
class TrainingStart:
    """Where training begins: the number of earlier optimizer steps, and whether it resumes from a saved optimizer.

    `step` is None if the training resumes and no step count was found. `source` is the loaded checkpoint, relative to
    the run's folder, or "" if unknown.
    """

    step: Optional[int] = 0
    resumed: bool = False
    source: str = ""


class OpenedFiles:
    """The files in a run's folder that this process opened before `stop` and that are older than the process."""

    def __init__(self, run: str) -> None:
        self.run = os.path.abspath(run)
        self.paths: Dict[str, None] = {}
        # The timestamps of files lag behind the clock by up to one tick of the kernel.
        self._began = time.time() - KERNEL_TICK_S
        self._active = True
        # safetensors opens its files in Rust, without an audit event. Optimizer files and JSON files cause an event.
        sys.addaudithook(self._audit)

    def stop(self) -> None:
        """Ignore later reads, because an audit hook cannot be removed."""
        self._active = False

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if not self._active or event != "open":
            return
        path = args[0]
        if isinstance(path, str) and path.endswith(SAVED) and len(self.paths) < MOST_READS:
            self.paths[os.path.abspath(path)] = None

    def saved(self) -> List[str]:
        """Return the absolute paths in the order in which they were first opened."""
        inside = (self.run + os.sep, os.path.realpath(self.run) + os.sep)
        return [path for path in self.paths if path.startswith(inside) and _written_before(path, self._began)]


def _written_before(path: str, unix: float) -> bool:
    try:
        return os.stat(path).st_mtime < unix
    except OSError:
        return False


def find_start(optimizer: Any, reads: OpenedFiles) -> TrainingStart:
    """Return where the training of `optimizer` begins. Call it before the first step.

    The step count of the optimizer is used, or `global_step` in a trainer_state.json of the same folder if it is
    higher. Trainer counts steps that the loss scaler skipped, and Adam does not. For an optimizer without a count (SGD,
    Lion), the step is read from the name of the checkpoint.
    """
    done = _steps_done(optimizer)
    files = reads.saved()
    optimizers = [path for path in files if OPTIMIZER.search(path)]
    # The state of an optimizer does not show that it was loaded: Adagrad creates its state when it is built, and
    # schedule-free optimizers when they are set to training mode.
    if not (done or optimizer in LOADED or optimizers):
        return TrainingStart()
    checkpoint = _checkpoint(optimizers, files)
    counted = max(done, _global_step(checkpoint) or 0)
    source = os.path.relpath(checkpoint, os.path.realpath(reads.run)) if checkpoint else ""
    return TrainingStart(counted or step_in(source) or None, True, source)


def describe_start(start: TrainingStart, offered: str, reads: OpenedFiles) -> Tuple[str, str, int]:
    """Return severity, message and first step. Not resuming from the `offered` checkpoint is a warning."""
    if start.resumed:
        source = f", from {start.source}" if start.source else ""
        at = (
            f" at step {start.step}"
            if start.step is not None
            else " at an unknown step (the optimizer has no step count)"
        )
        return "info", f"resumed{at}{source}", (start.step or 0) + 1
    name = os.path.basename(offered.rstrip("/"))
    files = (
        "the checkpoint's files were read" if _was_read(offered, reads) else "none of the checkpoint's files was opened"
    )
    message = (
        f"started again at step 0: the optimizer holds no state of {name}, and {files}. To resume, a script passes "
        'os.environ.get("HALFSTEP_RESUME_FROM") or None to trainer.train(resume_from_checkpoint=...)'
    )
    return "warning", message, 1


def _was_read(folder: str, reads: OpenedFiles) -> bool:
    prefix = os.path.realpath(folder) + os.sep
    return any(os.path.realpath(path).startswith(prefix) for path in reads.saved())


def step_in(checkpoint: str) -> int:
    """Return the step number at the end of a checkpoint's name, or 0 if there is none."""
    match = NUMBER.search(checkpoint)
    return int(match.group(1)) if match else 0


def note_loading(original: Any) -> Any:
    """Return a wrapper of Optimizer.load_state_dict that records the optimizers whose state was loaded."""

    def load_state_dict(self: Any, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, state_dict, *args, **kwargs)
        if self.state:
            LOADED.add(self)
        return result

    return load_state_dict


def _steps_done(optimizer: Any) -> int:
    """Return the highest step count in the optimizer, or 0 without a count."""
    states = [state for state in optimizer.state.values() if isinstance(state, dict)]
    counts = [state["step"] for state in states if "step" in state]
    counts += [group["step"] for group in optimizer.param_groups if "step" in group]
    return max((int(result_of(functools.partial(int, count), 0)) for count in counts), default=0)


def _checkpoint(optimizers: List[str], files: List[str]) -> str:
    """Return the checkpoint's folder, or the single file that contains everything, or "" if neither exists."""
    if optimizers:
        folder = os.path.dirname(optimizers[-1])
        return os.path.realpath(folder)
    single = [path for path in files if not path.endswith(".json")]
    return os.path.realpath(single[-1]) if single else ""


def _global_step(folder: str) -> Optional[int]:
    try:
        with open(os.path.join(folder, STATE), "rb") as file:
            step = json.load(file)["global_step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None
