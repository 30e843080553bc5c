"""At which step a process's training begins: what its optimizer had done before, and which saved files it loaded."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

STATE = "trainer_state.json"
SAVED = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".pkl", ".pickle", ".safetensors", ".distcp", ".metadata", ".json")
OPTIMIZER = re.compile(r"(?:^|/)optimizer[^/]*\.(?:pt|bin)$")
NUMBER = re.compile(r"(?:step|checkpoint|ckpt|iter|iteration)s?[-_=]?(\d+)(?:\.\w+)?/?$")
MOST_READS = 10_000
KERNEL_TICK_S = 0.02


@dataclass(frozen=True)
class Start:
    """Where a training begins: optimizer steps that were done before; whether it goes on from a saved optimizer.

    `step` is None where it goes on and nothing counts its steps. `source` is the checkpoint that was loaded, by its
    name in the run's folder; empty where none was seen.
    """

    step: Optional[int] = 0
    resumed: bool = False
    source: str = ""


class Reads:
    """The files in a run's folder that were opened, until `stop`, and that are older than this process."""

    def __init__(self, run: str) -> None:
        self.run = os.path.abspath(run)
        self.paths: Dict[str, None] = {}
        # The times of files lag behind the clock by a tick of the kernel.
        self._began = time.time() - KERNEL_TICK_S
        self._listens = True
        # safetensors opens its files in Rust, unseen; the optimizer's and the JSON files beside them are opened here.
        sys.addaudithook(self._audit)

    def stop(self) -> None:
        """Later reads are of no interest. An audit hook cannot be taken out again."""
        self._listens = False

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if not self._listens or event != "open":
            return
        path = args[0]
        if isinstance(path, str) and path.endswith(SAVED) and len(self.paths) < MOST_READS:
            self.paths[os.path.abspath(path)] = None

    def saved(self) -> List[str]:
        """Their absolute paths, in the order in which they were first opened."""
        inside = (self.run + os.sep, os.path.realpath(self.run) + os.sep)
        return [path for path in self.paths if path.startswith(inside) and _written_before(path, self._began)]


def _written_before(path: str, unix: float) -> bool:
    try:
        return os.stat(path).st_mtime < unix
    except OSError:
        return False


def judge_start(optimizer: Any, reads: Reads) -> Start:
    """Where the training of `optimizer` begins, asked before its first step.

    The optimizer's own count is what was done. Adam does not count a step that its loss scaler skipped, and Trainer
    does: where a trainer_state.json was read beside the optimizer's file, its `global_step` is the higher one. An
    optimizer that keeps no count (SGD, Lion) is believed to be at the step that its checkpoint is named after.
    """
    done, loaded = _steps_done(optimizer)
    files = reads.saved()
    optimizers = [path for path in files if OPTIMIZER.search(path)]
    if not (loaded or optimizers):
        return Start()
    place = _place(optimizers, files)
    counted = max(done, _global_step(place) or 0)
    source = os.path.relpath(place, os.path.realpath(reads.run)) if place else ""
    return Start(counted or step_in(source) or None, True, source)


def was_read(folder: str, reads: Reads) -> bool:
    """A file of that folder was opened."""
    wanted = os.path.realpath(folder) + os.sep
    return any(os.path.realpath(path).startswith(wanted) for path in reads.saved())


def step_in(checkpoint: str) -> int:
    """The step in a checkpoint's name, which ends in it; 0 where it has none."""
    match = NUMBER.search(checkpoint)
    return int(match.group(1)) if match else 0


def _steps_done(optimizer: Any) -> Tuple[int, bool]:
    """The highest count of steps in the optimizer, and whether it has a state that steps of before left in it."""
    states = [state for state in optimizer.state.values() if isinstance(state, dict) and state]
    counts = [state["step"] for state in states if "step" in state]
    counts += [group["step"] for group in optimizer.param_groups if "step" in group]
    done = max((int(count) for count in counts), default=0)
    # Some make their state when they are made (Adagrad), with a count of 0.
    return done, done > 0 or (bool(states) and not counts)


def _place(optimizers: List[str], files: List[str]) -> str:
    """The checkpoint's folder where it is one, else the file that holds everything."""
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
