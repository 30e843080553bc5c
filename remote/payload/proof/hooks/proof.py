"""The proof's recorder, which measures the first optimizer steps and writes a report for the judge."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, cast

from .attention import AttentionMeasure
from .autocast import autocast_caches
from .batches import Batches
from .device import synchronize
from .eval_mode import EvalMode
from .exits import watch_exit
from .foreign import result_of
from .gradient_flow import FlowRecorder
from .hold import hold, watch_runner
from .interruptions import Interruptions
from .loss_graph import Start
from .measured_step import MeasuredStep, measure_step
from .modules import MEASURED_FORWARDS, ModuleMeasure
from .origins import Origins
from .quiet import Ledger, quiet
from .recorder import DetailRecorder, number_in_environment
from .report import Counterfactual, Crash, Flags, RankReport, write_json
from .step_log import Clip, StepLog
from .summary import make_report
from .tensors import dtype_name, local
from .trained import Trained

WRITE_EVERY_S = 20.0
LIMITS = (("STEPS", 2), ("ATTEMPTS", 12))


class ProofRecorder:
    """Records `HALFSTEP_PROOF_STEPS` steps that were applied at a learning rate above 0, then writes its report.

    The process then waits to be killed. If it exited, a wrapper script would continue, and other ranks might fail.
    """

    forked = False
    interruptions: Optional[Interruptions] = None

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.log = StepLog(*(int(os.environ.get(f"HALFSTEP_PROOF_{name}") or most) for name, most in LIMITS))
        self.rank = number_in_environment("RANK", 0)
        self.world = number_in_environment("WORLD_SIZE", 1)
        self.ledger = Ledger()
        self.release: Callable[[], None] = lambda: None
        self.origins = Origins(self.ledger)
        self.batches = Batches()
        self.modules = ModuleMeasure(self.batches.targets.note_output)
        self.eval_mode = EvalMode(self._evaluating)
        self.attentions = AttentionMeasure()
        self.trained = Trained()
        self.scaler: Optional[Any] = None
        self.scheduler: Optional[Any] = None
        self.flow = FlowRecorder()
        self.losses: List[Any] = []
        self.clips: List[Clip] = []
        self.loss_dtypes: Set[str] = set()
        self.norm: Optional[float] = None
        self.stepping: Optional[Any] = None
        self.flags = Flags()
        self.stepped_in_cache = False
        self.ledger.since = self.last_write = time.perf_counter()
        self.ready = self.written = False
        self._crash: Optional[Crash] = None
        watch_exit(self.ledger.pid, self._failed, lambda: self.write("exited"))
        watch_runner()

    @property
    def details(self) -> DetailRecorder:
        return self

    def restart(self) -> None:
        unchanged = {"release": self.release, "origins": self.origins}
        ProofRecorder.__init__(self, self.folder)
        # Children of multiprocessing end without atexit, so the report is already written at the first step.
        vars(self).update(unchanged, last_write=-WRITE_EVERY_S, forked=True)
        self.origins.ledger = self.ledger

    @quiet
    def built(self, optimizer: Any) -> None:
        self.trained.built(optimizer)
        self.flow.built(optimizer)
        self.origins.built(optimizer)

    @quiet
    def forward(self, root: Any) -> None:
        if self.trained.add_root(root):
            root.register_forward_hook(self._inputs, with_kwargs=True)
        self.batches.targets.begin()
        self.modules.begin(root)
        if self.stepped_in_cache and autocast_caches():
            self._flag(step_in_autocast_cache=True)
        self.eval_mode.begin(root)

    @quiet
    def _inputs(self, root: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any], output: Any) -> None:
        # Inputs are recorded after the call, because hooks that are registered at its beginning run in the same call.
        if sys.modules["torch"].is_grad_enabled():
            self.batches.note_call(root, args, kwargs, output, len(self.log.steps))

    @quiet
    def attention(self, query: Any, key: Any, value: Any, settings: Dict[str, Any]) -> None:
        self.attentions.note(query, key, value, settings)

    @quiet
    def cross_entropy(self, scores: Any, target: Any, ignored: int) -> None:
        self.batches.note_entropy(scores, target, ignored)

    @quiet
    def value_loss(self, name: str, target: Any, lengths: Any) -> None:
        self.batches.note_values(name, target, lengths)

    @quiet
    def checkpointing(self, reentrant: bool, args: Tuple[Any, ...]) -> None:
        torch = sys.modules["torch"]
        if reentrant and not any(isinstance(arg, torch.Tensor) and arg.requires_grad for arg in args):
            self._flag(reentrant_without_gradient=True)

    @quiet
    def scaling(self, scaler: Any) -> None:
        self.scaler = scaler

    @quiet
    def autocast_made(self, requested: bool, enabled: bool, replaced: bool) -> None:
        self._flag(float16_only_on_card=replaced or self.flags.float16_only_on_card)
        if requested and not enabled:
            self._flag(autocast_only_on_card=True)
        # After the first step, autocast may be disabled for a part of the model only, so this flag is no longer set.
        elif not enabled and not self.log.steps:
            self._flag(autocast_off=True)

    @quiet
    def scaler_made(self, requested: bool, enabled: bool) -> None:
        self._flag(scaler_only_on_card=self.flags.scaler_only_on_card or (requested and not enabled))

    def cache_cleared(self) -> None:
        self.stepped_in_cache = False

    @quiet
    def before_backward(self) -> None:
        self.flow.before_backward()
        self.batches.targets.before_backward()

    @quiet
    def after_backward(self, start: Start) -> None:
        self.flow.after_backward(start)
        self.batches.targets.after_backward()
        if self.stepping is not None:
            # In a closure, gradients may already be cleared when the step is over, so they are measured here.
            self.norm = self.trained.measure(self.stepping, again=self.norm is not None)
        if start is Start.BY_HAND:
            self._flag(scaled_by_hand=True)

    def backward(self, loss: Any) -> None:
        self._finish_if_ready()
        self._backward(loss)

    @quiet
    def _backward(self, loss: Any) -> None:
        self.trained.add_waiting()
        self.losses.append(loss.detach())
        self.batches.losses.before_backward(loss)
        self.loss_dtypes.add(dtype_name(loss.dtype))

    def _evaluating(self, model: str, effect: str) -> None:
        if effect or not self.flags.eval_mode:
            self._flag(eval_mode=model, eval_effect=effect or self.flags.eval_effect)

    def _flag(self, **flags: Any) -> None:
        self.flags = dataclasses.replace(self.flags, **flags)

    @quiet
    def before_unscaling(self, optimizer: Any, scale: float) -> None:
        self.trained.add(optimizer)
        self.flow.built(optimizer)
        self.flow.before_unscaling(optimizer, scale)

    @quiet
    def before_clipping(self, parameters: List[Any]) -> None:
        self.flow.before_clipping(parameters)

    @quiet
    def after_clipping(self, parameters: List[Any], norm: Any, limit: Any) -> None:
        known = None if norm is None else float(local(norm)) if hasattr(norm, "detach") else float(norm)
        self.clips.append(({id(parameter) for parameter in parameters}, known, float(limit)))
        scale = float(self.scaler.get_scale()) if self.scaler else 1.0
        self.flow.after_clipping(parameters, known, float(limit), scale)

    @quiet
    def _attempt(self, optimizer: Any) -> None:
        self.trained.add(optimizer)
        self.trained.before_step(optimizer)

    @quiet
    def attempt(self, optimizer: Any, scaler: Any) -> None:
        self._attempt(optimizer)
        self.flow.built(optimizer)
        self.flow.before_step(optimizer, scaler)

    @quiet
    def before_step(self, optimizer: Any, *, closure: bool) -> None:
        self.stepping, self.norm = optimizer, None
        if self.trained.has(optimizer):
            self.norm = self.trained.measure(optimizer)

    def after_step(self, optimizer: Any, scaler: Any, scale: Optional[float], skipped: bool) -> None:
        self._changed(optimizer, skipped)
        self._after_step(optimizer, scale, skipped)
        # After a scaled step, the report waits, because the scale is not yet updated and other optimizers may step.
        if scaler is None and len(self.trained.optimizers) == 1:
            self._finish_if_ready(averages=self.trained.averages.any)

    @quiet
    def _changed(self, optimizer: Any, skipped: bool) -> None:
        self.stepping = None
        self.flow.after_step(optimizer, skipped)
        self.stepped_in_cache = self.stepped_in_cache or (not skipped and autocast_caches())
        if not skipped:
            self.trained.after_step(optimizer)

    @quiet
    def _after_step(self, optimizer: Any, scale: Optional[float], skipped: bool) -> None:
        if optimizer is not self.trained.main:
            return
        entered = time.perf_counter()
        synchronize(self.trained.device)
        now = time.perf_counter()
        number, seconds = len(self.log.steps) + 1, self.ledger.end_step(entered, now)
        measured = MeasuredStep(self.trained, optimizer, scale, skipped, self.losses, self.clips, self.norm)
        self.log.steps.append(measure_step(measured, number, seconds))
        self.losses, self.clips, self.norm = [], [], None
        if len(self.log.steps) >= MEASURED_FORWARDS:
            self.release()
            self.eval_mode.release()
        self.ready = self.log.may_stop(idle=self.trained.idle, put_back=self.trained.put_back)
        self._publish_step()

    def _publish_step(self) -> None:
        """Append the newest step to steps.jsonl. Write an intermediate report if the proof is slow."""
        if self.rank == 0:
            self.log.append_newest(os.path.join(self.folder, "steps.jsonl"))
        if time.perf_counter() - self.last_write > WRITE_EVERY_S and not self.ready:
            self.write("running")

    def scale_updated(self, scaler: Any) -> None:
        self._note_scale(scaler)
        self._finish_if_ready(averages=self.trained.averages.any)

    @quiet
    def _note_scale(self, scaler: Any) -> None:
        self.log.note_scale(float(scaler.get_scale()))

    @quiet
    def scheduled(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        if self.log.steps and not self.log.steps[-1].applied:
            self._flag(scheduled_after_skip=True, scheduled_at=self.origins.current_line())

    def _finish_if_ready(self, *, averages: bool = False) -> None:
        if self.ready and not averages and os.getpid() == self.ledger.pid:
            self.write("done")
            hold()

    def write(self, state: str) -> None:
        """Write what was recorded so far to rank-R-PID.json."""
        # A forked data loader worker may call a model, but must not write a report.
        if self.written or not (self.log.steps or (self.trained.roots and not self.forked)):
            return
        self.written, self.last_write = state != "running", time.perf_counter()
        base = RankReport(self.rank, state, self.world, self._crash, tuple(self.ledger.faults))
        report = make_report(self, base)
        path = os.path.join(self.folder, f"rank-{self.rank}-{os.getpid()}.json")
        if state == "done":
            # This report remains if the process dies in the following recomputation.
            write_json(path, dataclasses.replace(report, state="running"))
            report = dataclasses.replace(report, counterfactual=self._recomputed())
        write_json(path, report)

    def _recomputed(self) -> Counterfactual:
        why = Counterfactual(why="the model's last call could not be compared with another call")
        again = result_of(lambda: self.batches.recompute(self.trained.main, self.log.steps, self.world), why)
        return cast(Counterfactual, again)

    def _failed(self, crash: Crash) -> None:
        self._crash = crash
        self.write("exception")
