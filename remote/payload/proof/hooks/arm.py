"""Waiting until torch has been imported, and then watching it; a process that never imports torch pays nothing."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from typing import Any, Optional

from .finding import watch_imports
from .opening import Training
from .proof import ProofRecorder
from .recorder import Recorder
from .seams import OPENED, install
from .watch import WatchRecorder

PROOF = "HALFSTEP_PROOF"
WATCH = "HALFSTEP_WATCH"


class Hooks:
    """This process's hooks: one recorder from the moment torch is imported, put in again where torch is reloaded."""

    def __init__(self) -> None:
        self.armed = False
        self.recorder: Optional[Recorder] = None
        self._training = Training()

    def executed(self, name: str) -> None:
        """A module of torch was executed; before torch itself has been, that is only a part of its import."""
        if name == "torch" or self.recorder is not None:
            self.start()

    def start(self) -> None:
        """The hooks are in place, or a note says why not; nothing is raised."""
        folder = os.environ.get(PROOF, "")
        try:
            if self.recorder is None:
                self.recorder = ProofRecorder(folder) if folder else WatchRecorder(os.environ[WATCH])
                self._training = Training()
            install(self.recorder, self._training)
        except Exception:  # noqa: BLE001 - the user's command must run whatever is wrong with us
            _note(folder, torch=True, fault=traceback.format_exc())
        else:
            _note(folder, torch=True)


HOOKS = Hooks()


def arm() -> None:
    """Torch is watched once it is imported, if the environment asks for a proof or a watch; once is enough."""
    if HOOKS.armed or not (os.environ.get(PROOF) or os.environ.get(WATCH)):
        return
    HOOKS.armed = True
    watch_imports(OPENED, HOOKS.executed)
    if "torch" in sys.modules:
        HOOKS.start()
    else:
        _note(os.environ.get(PROOF, ""), torch=False)


def start() -> Optional[Recorder]:
    """The hooks are in a torch that is imported already; None where they could not be put there."""
    HOOKS.start()
    return HOOKS.recorder


def _note(proof: str, **seen: Any) -> None:
    """python-PID.json tells a proof that the hooks run in this process, and what they met; a watch gets faults only."""
    folder = proof or (os.environ[WATCH] if seen.get("fault") else "")
    if not folder:
        return
    path = os.path.join(folder, f"python-{os.getpid()}.json")
    # A full disk is the command's to report, at its own next write.
    with contextlib.suppress(OSError):
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), "command": list(getattr(sys, "orig_argv", [sys.executable])), **seen}, file)
        os.replace(path + ".part", path)
