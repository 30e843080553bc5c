"""Waiting until torch has been imported, and then watching it; a process that never imports torch pays nothing."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from importlib.machinery import ModuleSpec
from typing import Any, Callable, Optional, Sequence

from .proof import ProofRecorder
from .recorder import Recorder
from .seams import install
from .watch import WatchRecorder

PROOF = "HALFSTEP_PROOF"
WATCH = "HALFSTEP_WATCH"


def arm() -> None:
    """Torch is watched from the moment it is there, if the environment asks for a proof or a watch."""
    if not (os.environ.get(PROOF) or os.environ.get(WATCH)):
        return
    if "torch" in sys.modules:
        start()
    else:
        sys.meta_path.insert(0, TorchFinder(start))


def start() -> Optional[Recorder]:
    """The hooks are in; what is wrong with them is written down and raised to nobody."""
    folder = os.environ.get(PROOF, "")
    try:
        recorder: Recorder = ProofRecorder(folder) if folder else WatchRecorder(os.environ[WATCH])
        install(recorder)
    except Exception:  # noqa: BLE001 - the user's command must run whatever is wrong with us
        note = os.path.join(folder or os.environ[WATCH], f"hooks-failed-{os.getpid()}.txt")
        with open(note, "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        return None
    return recorder


class TorchFinder:
    """A finder that finds nothing itself: it lets the others find torch and hears when that import is over."""

    def __init__(self, ready: Callable[[], object]) -> None:
        self._ready = ready

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Optional[ModuleSpec]:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def execute_and_tell(module: Any) -> None:
            del loader.exec_module
            execute(module)
            self._ready()

        # On the instance: the loader stays what it is for everybody who asks the module for it.
        loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec
