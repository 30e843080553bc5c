"""Install the hooks after torch has been imported. A process that never imports torch has no overhead."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from typing import Optional

from .imports import watch_imports
from .origins import OPENED
from .patches import PATCHED, install
from .patching import Training
from .private_store import keep_stores_private
from .proof import ProofRecorder
from .recorder import Recorder
from .report import ProcessNote, write_json
from .runtime import RUNTIME, plan_of_environment
from .runtime_patches import Runtime
from .signed_objects import sign_objects
from .stores import bind_stores
from .watch import WatchRecorder

PROOF = "HALFSTEP_PROOF"
WATCH = "HALFSTEP_WATCH"


class Hooks:
    """The hooks of this process, with one recorder. They are installed again if torch is reloaded."""

    def __init__(self) -> None:
        self.armed = False
        self.recorder: Optional[Recorder] = None
        self._has_torch = False
        self._training = Training()
        self._runtime: Optional[Runtime] = None

    def executed(self, name: str) -> None:
        """Install the hooks after a module of torch has been executed, unless torch itself is still being imported.

        If the hooks could not be installed, a module that is imported later is protected against other users all the
        same.
        """
        if name == "torch" or self.recorder is not None:
            self.start()
        elif self._has_torch:
            _protect()

    def start(self) -> None:
        """Install the hooks. On failure, write a note with the reason, or raise if the run needs the runtime plan.

        Raises every error of the protection against other users of the host: training must not begin without it.
        """
        folder = os.environ.get(PROOF, "")
        self._has_torch = True
        _protect()
        try:
            if self.recorder is None:
                if folder:
                    OPENED.watch()
                self.recorder = ProofRecorder(folder) if folder else WatchRecorder(os.environ[WATCH])
                self._training = Training()
                plan = plan_of_environment()
                self._runtime = Runtime(plan) if plan is not None else None
            if self._runtime is not None:
                self._runtime.install(self.recorder, self._training)
            install(self.recorder, self._training)
        except Exception:
            if os.environ.get(RUNTIME):
                # The training must not begin without the plan.
                raise
            # A defect of the hooks must not end the user's command.
            _note(folder or os.environ[WATCH], torch=True, fault=traceback.format_exc())
        else:
            _note(folder, torch=True)


def _protect() -> None:
    """Protect what the processes of a training send each other against other users of the host."""
    bind_stores()
    keep_stores_private()
    sign_objects()


HOOKS = Hooks()


def activate() -> None:
    """Install the hooks once torch is imported, if the environment requests a proof or a watch."""
    if HOOKS.armed or not (os.environ.get(PROOF) or os.environ.get(WATCH)):
        return
    HOOKS.armed = True
    if os.environ.get(PROOF):
        OPENED.watch()
    watch_imports(PATCHED, HOOKS.executed)
    if "torch" in sys.modules:
        HOOKS.start()
    else:
        _note(os.environ.get(PROOF, ""), torch=False)


def start() -> Optional[Recorder]:
    """Install the hooks into a torch that is already imported. Return None if that failed."""
    HOOKS.start()
    return HOOKS.recorder


def _note(folder: str, *, torch: bool, fault: str = "") -> None:
    """Write python-PID.json to `folder`, which records that the hooks run in this process.

    Does nothing if `folder` is "".
    """
    if not folder:
        return
    note = ProcessNote(os.getpid(), tuple(getattr(sys, "orig_argv", [sys.executable])), torch, fault)
    # An error is ignored here. If the disk is full, the command itself reports that at its next write.
    with contextlib.suppress(OSError):
        write_json(os.path.join(folder, f"python-{note.pid}.json"), note)
