"""The proof's recorder: everything that can be seen of the first optimizer steps, written down for the judge."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from .attempts import Attempts, Clip, last_clip
from .attention import AttentionMeasure
from .autocast import waits_for_card
from .device import peak_memory, synchronize
from .exits import watch_exit
from .hold import hold, watch_runner
from .labels import Batches
from .modules import MEASURED_FORWARDS, ModuleMeasure
from .quiet import Ledger, quiet
from .scaling import Scaling
from .tensors import learning_rate, local, measure_gradients, parameters_of, rate_in_schedule, read_losses, short
from .trained import Trained

WRITE_EVERY_S = 20.0


class ProofRecorder:
    """Watches `HALFSTEP_PROOF_STEPS` applied steps with a learning rate above 0, then reports and holds still.

    Holding still, not ending: a wrapper script must not go on to its next line, and other ranks may need this one.
    """

    wants_modules = True
    forked = False

    def __init__(self, folder: str) -> None:
        self.folder = folder
        wanted, patience = (os.environ.get(f"HALFSTEP_PROOF_{name}", "") for name in ("STEPS", "ATTEMPTS"))
        self.attempts = Attempts(int(wanted or 2), int(patience or 12))
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.ledger = Ledger()
        self.release: Callable[[], None] = lambda: None
        self.modules = ModuleMeasure()
        self.attentions = AttentionMeasure()
        self.trained = Trained()
        self.scaler: Optional[Any] = None
        self.scaling = Scaling()
        self.micro: List[Any] = []
        self.clips: List[Clip] = []
        self.loss_dtypes: Dict[str, int] = {}
        self.batches = Batches()
        self.norm: Optional[float] = None
        self.stepping: Optional[Any] = None
        self.flags: Dict[str, Any] = {}
        self.began = time.perf_counter()
        self.since = self.began
        self.ready = False
        self.written = False
        self.last_write = self.began
        self._last_error: Optional[Dict[str, Any]] = None
        watch_exit(self.ledger.pid, self._failed, lambda: self.write("exited"))
        watch_runner()

    def restart(self) -> None:
        release = self.release
        ProofRecorder.__init__(self, self.folder)
        # Children of multiprocessing end without atexit: what is seen is written at the first step already.
        self.release, self.last_write, self.forked = release, -WRITE_EVERY_S, True

    @quiet
    def built(self, optimizer: Any) -> None:
        self.trained.built(optimizer)
        self.scaling.built(optimizer)

    @quiet
    def forward(self, root: Any) -> None:
        if self.trained.is_new(root):
            root.register_forward_pre_hook(self._inputs_hook, with_kwargs=True)
        self.modules.begin(root)
        if not root.training:
            self.flags["eval_mode"] = type(root).__name__

    def _inputs_hook(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        if sys.modules["torch"].is_grad_enabled():
            self.inputs(root, args, kwargs)

    @quiet
    def inputs(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        self.batches.note_inputs(args, kwargs, len(self.attempts.rows))

    @quiet
    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        self.attentions.note(query, key, value, settings)

    @quiet
    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        self.batches.note_targets(scores, target, ignored)

    @quiet
    def loss(self, name: str, target: Any, lengths: Any) -> None:
        self.batches.note_floats(name, target, lengths)

    @quiet
    def checkpointed(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        torch = sys.modules["torch"]
        if reentrant and not any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
            self._flag("reentrant_without_gradient")

    @quiet
    def scaled(self, scaler: Any, loss: Any) -> None:
        self.scaler = scaler

    @quiet
    def asked(self, what: str, wanted: bool, on: bool) -> None:
        # Later on nobody tells a part of a model from the training around it.
        if not on and (wanted or not self.attempts.rows):
            self._flag(f"{what}_waits_for_card" if wanted else f"{what}_off")

    @quiet
    def accumulating(self) -> None:
        self.scaling.begin()

    @quiet
    def accumulated(self, kind: str) -> None:
        self.scaling.end(kind)
        if self.stepping is not None:
            # A closure: its gradients may be cleared again when the step is over.
            self.norm = self.trained.measure(self.stepping, again=self.norm is not None)
        if kind == "by hand":
            self._flag("scaled_by_hand")

    def backward(self, root: Any, loss: Any) -> None:
        self._finish_if_ready()
        self._backward(root, loss)

    @quiet
    def _backward(self, root: Any, loss: Any) -> None:
        self.trained.look_late()
        self.micro.append(loss.detach())
        dtype = short(loss.dtype)
        self.loss_dtypes[dtype] = self.loss_dtypes.get(dtype, 0) + 1

    def _flag(self, name: str) -> None:
        self.flags[name] = self.flags.get(name, 0) + 1

    @quiet
    def unscaling(self, scaler: Any, optimizer: Any) -> None:
        self.trained.look(optimizer)
        self.scaling.built(optimizer)
        self.scaling.dividing(optimizer)

    @quiet
    def clipping(self, parameters: List[Any]) -> None:
        self.scaling.clipping(parameters)

    @quiet
    def clipped(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        known = None if norm is None else float(local(norm)) if hasattr(norm, "detach") else float(norm)
        self.clips.append(({id(parameter) for parameter in parameters}, known, float(limit)))
        self.scaling.clipped(parameters, known, float(limit), float(self.scaler.get_scale()) if self.scaler else 1.0)

    @quiet
    def attempt(self, optimizer: Any, scaler: Any) -> None:
        self.trained.look(optimizer)
        self.trained.look_again(optimizer)
        self.scaling.built(optimizer)
        self.scaling.stepping(optimizer, scaler)

    @quiet
    def applying(self, optimizer: Any) -> None:
        self.stepping, self.norm = optimizer, None
        if self.trained.knows(optimizer):
            self.norm = self.trained.measure(optimizer)

    def applied(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        self._applied(optimizer, scaler, scale, skipped)
        # After a scaled step the new scale is still to come, and other optimizers may be.
        if scaler is None and len(self.trained.optimizers) == 1:
            self._finish_if_ready()

    @quiet
    def _applied(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        self.scaling.stepped(optimizer, skipped)
        self.stepping = None
        if not skipped:
            self.trained.look_behind(optimizer)
        if optimizer is not self.trained.main:
            return
        entered = time.perf_counter()
        synchronize(self.trained.tables.get("device", {}))
        now = time.perf_counter()
        self.attempts.rows.append(self._attempt(optimizer, scale, skipped, now))
        self.micro, self.clips, self.norm = [], [], None
        # What follows in here is ours; waiting for the card was the step's.
        self.since, self.ledger.own_s = now, entered - now
        if len(self.attempts.rows) >= MEASURED_FORWARDS:
            self.release()
        self.ready = self.attempts.enough(idle=self.trained.idle, put_back=self.trained.put_back)
        self._tell_step()

    def _attempt(self, optimizer: Any, scale: Optional[float], skipped: bool, now: float) -> Dict[str, Any]:
        clip = last_clip(self.clips, parameters_of(optimizer))
        norm, limit = clip or (None, None)
        bad = []
        if skipped:
            states, _ = measure_gradients(self.trained.named(optimizer))
            bad = [name for name, state in states.items() if state == "nonfinite"][:10]
        rate = learning_rate(optimizer)
        return {
            "applied": not skipped,
            "scale": scale,
            "seconds": now - self.since - self.ledger.own_s,
            "losses": read_losses(self.micro),
            "grad_norm": norm if norm is not None else (None if skipped else self.norm),
            "applied_norm": None if skipped else self.norm,
            "clipped": clip is not None,
            "clip_limit": limit,
            # A rate of 0 that moves weights is not the one that the optimizer goes by.
            "lr": None if rate == 0 and self.trained.has_moved(optimizer) else rate,
            "scheduled": rate_in_schedule(optimizer),
            "nonfinite": bad,
        }

    def _tell_step(self) -> None:
        """The newest attempt goes to steps.jsonl; a slow proof also leaves a report on the way."""
        if self.rank == 0:
            self.attempts.append_newest(os.path.join(self.folder, "steps.jsonl"))
        if time.perf_counter() - self.last_write > WRITE_EVERY_S and not self.ready:
            self.write("running")

    @quiet
    def _note_scale(self, scaler: Any) -> None:
        if self.attempts.rows:
            self.attempts.rows[-1]["scale_after"] = float(scaler.get_scale())

    def rescaled(self, scaler: Any) -> None:
        self._note_scale(scaler)
        self._finish_if_ready()

    @quiet
    def scheduled(self, scheduler: Any) -> None:
        if self.attempts.rows and not self.attempts.rows[-1]["applied"]:
            self._flag("scheduled_after_skip")

    def _finish_if_ready(self) -> None:
        if self.ready and os.getpid() == self.ledger.pid:
            self.write("done")
            hold()

    def write(self, state: str) -> None:
        """rank-R-PID.json holds what was seen so far."""
        # A data loader worker is a fork too, and may call a model.
        if self.written or not (self.attempts.rows or (self.trained.roots and not self.forked)):
            return
        self.written = state != "running"
        self.last_write = time.perf_counter()
        try:
            report = self._report(state)
        except Exception:  # noqa: BLE001 - what could be seen is worth more than a perfect report
            report = {"state": state, "faults": [*self.ledger.faults, traceback.format_exc(limit=-3)]}
            report.update(rank=self.rank, world=self.world, error=self._last_error)
        path = os.path.join(self.folder, f"rank-{self.rank}-{os.getpid()}.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file)
        os.replace(path + ".part", path)

    def _failed(self, error: Dict[str, Any]) -> None:
        self._last_error = error
        self.write("exception")

    def _report(self, state: str) -> Dict[str, Any]:
        trained = self.trained.summary()
        return {
            "version": 1,
            "state": state,
            "rank": self.rank,
            "world": self.world,
            "torch": sys.modules["torch"].__version__,
            "error": self._last_error,
            "faults": self.ledger.faults,
            **trained,
            "attempts": self.attempts.rows,
            "open_losses": read_losses(self.micro),
            "loss_dtypes": self.loss_dtypes,
            "scaler": type(self.scaler).__name__ if self.scaler is not None else "",
            "scaling": self.scaling.summary(),
            **self.batches.summary(),
            "modules": self.modules.summary(),
            "attention": self.attentions.summary(self.trained.roots),
            "flags": {**self.flags, **waits_for_card()},
            "memory": peak_memory(trained.get("device", {})),
            "seconds": time.perf_counter() - self.began,
        }
