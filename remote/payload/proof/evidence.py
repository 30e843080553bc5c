"""The reports of all ranks of one proof: the input of every check."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Tuple, Union

from remote.payload.proof.hooks.batch_report import BatchTables, EntropyTargets, LabelCounts, ValueTargets
from remote.payload.proof.hooks.report import DtypeCount, Flags, Misuse, RankReport, TrainableTensor
from remote.payload.proof.hooks.rules import loss_is_lost
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.pythons import Python
from remote.payload.proof.unhooked import Reason, has_key, judge_unsigned
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.precision import PrecisionPlan
from remote.protocol.proof import NotChecked, ProofRequest
from remote.protocol.runtime import RUNTIME
from remote.protocol.training import MemoryPlan
from remote.protocol.values import decode

Result = Union[Finding, NotChecked]
HALF = ("float16", "bfloat16")
STATES = ("none", "zero", "nonzero", "nonfinite")
"""The states of a gradient, from weakest to strongest."""
REPORT = re.compile(r"rank-.*\.json")
PEFT_NAME = re.compile(r"\.(?:lora_[A-Za-z_]+|modules_to_save)\.([^.]+)(?:\.|$)")


@dataclass(frozen=True)
class Evidence:
    """The reports of all ranks, rank 0 first. `exit` is None if the proof ended the command.

    `texts` contains the text of each project file that chose a dtype or was read as settings, by path. `memory` is the
    plan of the built-in trainer. `slurm_jobs` are the numbers of the jobs that the command submitted to Slurm itself.
    """

    request: ProofRequest
    ranks: Tuple[RankReport, ...]
    exit: Optional[int] = None
    timed_out: bool = False
    wall_s: float = 0.0
    output_tail: str = ""
    pythons: Tuple[Python, ...] = ()
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    memory: Optional[MemoryPlan] = None
    slurm_jobs: Tuple[int, ...] = ()

    @property
    def first(self) -> RankReport:
        return self.ranks[0] if self.ranks else RankReport(0, "")

    @property
    def plan(self) -> PrecisionPlan:
        return self.request.plan

    @property
    def unsigned(self) -> Optional[Reason]:
        """The reason why processes exchanged unsigned objects, unless the config switched the signatures off."""
        return judge_unsigned(self.pythons) if has_key(self.request.environment) else None

    @property
    def below_bf16(self) -> bool:
        """True if the card, real or simulated, only emulates bfloat16."""
        known = [one for one in (self.request.capability, self.first.model.device.capability) if one is not None]
        return bool(known) and min(known) < (8, 0)

    @property
    def on_cpu(self) -> bool:
        return self.first.model.device.type == "cpu"

    @property
    def flags(self) -> Flags:
        """The flags of all ranks. A flag is set if any rank set it."""
        merged = Flags()
        for rank in reversed(self.ranks):
            given = {name: value for name, value in vars(rank.flags).items() if value}
            merged = dataclasses.replace(merged, **given)
        return merged

    @property
    def autocast_only_on_card(self) -> bool:
        """True if autocast is off only because the command runs on a CPU."""
        return self.on_cpu and (self.flags.autocast_only_on_card or self.flags.accelerate_only_on_card)

    @property
    def float16_only_on_card(self) -> bool:
        """True if autocast is bfloat16 only because the command runs on a CPU."""
        return self.on_cpu and self.flags.float16_only_on_card

    @property
    def scaler_only_on_card(self) -> bool:
        """True if the loss scaler is off only because the command runs on a CPU."""
        return self.autocast_only_on_card or (self.on_cpu and self.flags.scaler_only_on_card)

    @property
    def has_runtime(self) -> bool:
        """True if the hooks applied the precision plan in the command's processes."""
        return RUNTIME in self.request.environment

    @property
    def runtime_lines(self) -> List[str]:
        """The changes that the applied plan made in the processes, without duplicates."""
        return list(dict.fromkeys(line for rank in self.ranks for line in rank.provenance.runtime))

    @property
    def has_scaler(self) -> bool:
        return any(rank.has_scaler for rank in self.ranks)

    @property
    def steps(self) -> Tuple[Step, ...]:
        """The attempted steps of rank 0."""
        return self.first.steps

    @property
    def counted(self) -> List[Step]:
        """The steps that were applied at a learning rate other than 0."""
        return [step for step in self.steps if step.is_counted]

    @property
    def losses(self) -> List[float]:
        closed = [loss for rank in self.ranks for step in rank.steps for loss in step.losses]
        return closed + [loss for rank in self.ranks for loss in rank.open_losses]

    @property
    def misuses(self) -> FrozenSet[Misuse]:
        return frozenset(misuse for rank in self.ranks for misuse in rank.gradient_flow.misuses)

    @property
    def batches(self) -> List[BatchTables]:
        return [rank.batches for rank in self.ranks]

    @property
    def labels(self) -> List[LabelCounts]:
        return [row for rank in self.ranks for row in rank.batches.labels]

    @property
    def entropies(self) -> List[EntropyTargets]:
        return [row for rank in self.ranks for row in rank.batches.entropies]

    @property
    def value_targets(self) -> List[ValueTargets]:
        return [row for rank in self.ranks for row in rank.batches.values]

    @property
    def foreign(self) -> List[DtypeCount]:
        """The tensors that an optimizer holds but no called model has."""
        return [row for rank in self.ranks for row in rank.model.foreign]

    @property
    def uncalled(self) -> List[str]:
        """The names of foreign tensors that belong to a module that was not called."""
        return [name for rank in self.ranks for name in rank.model.uncalled]

    @property
    def trainable(self) -> List[TrainableTensor]:
        """Every trainable tensor of all ranks, without duplicates."""
        rows = [row for rank in self.ranks for row in rank.model.trainable]
        return list({row.name: row for row in reversed(rows)}.values())

    def dtypes(self, *kinds: str) -> List[DtypeCount]:
        """Return the dtype counts of these kinds on all ranks."""
        return [row for rank in self.ranks for row in rank.model.dtypes if row.kind in kinds]

    def has_float16(self, *kinds: str) -> bool:
        return any(row.dtype == "float16" for row in self.dtypes(*kinds))

    @property
    def gradients(self) -> Dict[str, List[str]]:
        """The state of each trained tensor's gradient in each step. If ranks differ, the strongest state counts."""
        by_name: Dict[str, List[Tuple[str, ...]]] = {}
        for rank in self.ranks:
            for name, states in rank.trained.gradients.items():
                by_name.setdefault(name, []).append(states)
        return {
            name: [max(states, key=STATES.index) for states in itertools.zip_longest(*rows, fillvalue=STATES[0])]
            for name, rows in by_name.items()
        }

    @property
    def moved(self) -> Dict[str, bool]:
        """For each trained tensor, whether its values changed on any rank."""
        merged: Dict[str, bool] = {}
        for rank in self.ranks:
            for name, has_moved in rank.trained.moved.items():
                merged[name] = merged.get(name, False) or has_moved
        return merged

    @property
    def master_weights(self) -> bool:
        """True if the optimizer updates float32 copies, which are then copied to the float16 weights of the models."""
        unheld = [row for rank in self.ranks for row in rank.model.trainable if not row.optimized]
        copies = self.foreign
        if not unheld or any(row.dtype != "float16" for row in unheld) or {row.dtype for row in copies} != {"float32"}:
            return False
        enough = sum(row.elements for row in copies) >= sum(row.elements for row in unheld)
        return enough and all(rank.trained.unoptimized_changed for rank in self.ranks)

    @property
    def idle(self) -> bool:
        """True if gradients were measured and all gradients were missing or 0."""
        states = {state for rows in self.gradients.values() for state in rows}
        return bool(states) and states <= {"none", "zero"}

    @property
    def nonfinite_weights(self) -> List[str]:
        """The trained tensors that were finite before the first step and are not finite any more.

        No later step repairs them.
        """
        return sorted({name for rank in self.ranks for name in rank.trained.nonfinite})

    @property
    def loss_lost(self) -> bool:
        """True if a loss was not finite and the training does not recover from it."""
        if all(math.isfinite(loss) for loss in self.losses):
            return False
        return loss_is_lost(self.counted, nonfinite_weights=bool(self.nonfinite_weights))

    @property
    def clipped_away(self) -> bool:
        """True if there were gradients and clipping set all gradients to 0."""
        return self.idle and any(step.clipped and step.grad_norm for step in self.steps)


class Ranks:
    """The reports of the ranks in a folder. A report is decoded again only after it was replaced."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._reports: Dict[Tuple[int, int, int], RankReport] = {}

    def read(self) -> Tuple[RankReport, ...]:
        """Return the newest report of every rank, rank 0 first. Files that are still being written are ignored."""
        newest: Dict[int, RankReport] = {}
        paths = [os.path.join(self._folder, name) for name in os.listdir(self._folder) if REPORT.fullmatch(name)]
        for path in sorted(paths, key=lambda path: os.lstat(path).st_mtime):
            report = self._report(path)
            newest[report.rank] = report
        return tuple(newest[rank] for rank in sorted(newest))

    def _report(self, path: str) -> RankReport:
        with open(path, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            key = (status.st_ino, status.st_size, status.st_mtime_ns)
            if key not in self._reports:
                self._reports[key] = decode(RankReport, json.load(file))
        return self._reports[key]


def adapter_of(name: str) -> str:
    """Return PEFT's name of the adapter to which a tensor belongs, or "" if it belongs to no adapter."""
    match = PEFT_NAME.search(name)
    return match.group(1) if match else ""


def error(check: str, message: str, *, where: str = "", hint: str = "", code: ExitCode = ExitCode.PRECISION) -> Finding:
    return Finding.error(check, message, where, hint, code)


warning = Finding.warning


def passed(check: str, message: str) -> Finding:
    return Finding(check, Severity.INFO, message)


def some(names: Iterable[str], most: int = 3) -> str:
    """Return the first `most` names as text, with the number of further names."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
