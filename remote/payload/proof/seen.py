"""What the ranks of one proof wrote, together: what a judgement looks at."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from remote.payload.proof.pythons import Python
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.precision import PrecisionPlan
from remote.protocol.proof import NotChecked, ProofRequest

Row = Union[Finding, NotChecked]
STRENGTH = {"none": 0, "zero": 1, "nonzero": 2, "nonfinite": 3}
ADAPTER = re.compile(r"(^|[._])(lora|adapter|ia3|dora|vera|loha|lokr)", re.IGNORECASE)
REPORT = re.compile(r"rank-.*\.json")
PEFT_NAME = re.compile(r"\.(?:lora_[A-Za-z_]+|modules_to_save)\.([^.]+)(?:\.|$)")


@dataclass(frozen=True)
class Seen:
    """Reports of all ranks, rank 0 first; `exit` None where we ended the command ourselves."""

    request: ProofRequest
    ranks: Tuple[Dict[str, Any], ...]
    exit: Optional[int] = None
    timed_out: bool = False
    wall_s: float = 0.0
    output_tail: str = ""
    pythons: Tuple[Python, ...] = ()

    @property
    def first(self) -> Dict[str, Any]:
        return self.ranks[0] if self.ranks else {}

    @property
    def plan(self) -> PrecisionPlan:
        return self.request.plan

    @property
    def below_bf16(self) -> bool:
        """The card only emulates bfloat16, or stands for one that does."""
        told = self.first.get("device", {}).get("capability")
        known = [tuple(one) for one in (self.request.capability, told) if one is not None]
        return bool(known) and min(known) < (8, 0)

    @property
    def waits_for_card(self) -> bool:
        """On this CPU, autocast is off only because there is no card to switch it on for."""
        return self.on_cpu and bool(self.flag("autocast_waits_for_card"))

    @property
    def on_cpu(self) -> bool:
        return str(self.first.get("device", {}).get("type", "")) == "cpu"

    @property
    def attempts(self) -> List[Dict[str, Any]]:
        return list(self.first.get("attempts", []))

    @property
    def effective(self) -> List[Dict[str, Any]]:
        """Steps that were applied, but those at a learning rate of 0; a rate that cannot be read counts."""
        return [row for row in self.attempts if row["applied"] and row["lr"] != 0]

    @property
    def losses(self) -> List[float]:
        rows = [loss for rank in self.ranks for row in rank.get("attempts", []) for loss in row["losses"]]
        return rows + [loss for rank in self.ranks for loss in rank.get("open_losses", [])]

    def flag(self, name: str) -> Any:
        """The first truthy value any rank noted under that name."""
        return next((rank["flags"][name] for rank in self.ranks if rank.get("flags", {}).get(name)), None)

    def misused(self, name: str) -> bool:
        """Some rank noted that its loss scale was used in that wrong way."""
        return any(rank.get("scaling", {}).get("wrong", {}).get(name) for rank in self.ranks)

    def every(self, name: str) -> List[Any]:
        """The rows of all ranks under that name."""
        return [row for rank in self.ranks for row in rank.get(name, [])]

    def dtypes(self, *kinds: str) -> List[Dict[str, Any]]:
        return [row for row in self.every("dtypes") if row["kind"] in kinds]

    def gradients(self) -> Dict[str, List[str]]:
        """By trained tensor, the strongest state of its gradient on any rank, step by step."""
        merged: Dict[str, List[str]] = {}
        for rank in self.ranks:
            for name, states in rank.get("gradients", {}).items():
                known = merged.setdefault(name, [])
                for at, state in enumerate(states):
                    if at == len(known):
                        known.append(state)
                    elif STRENGTH[state] > STRENGTH[known[at]]:
                        known[at] = state
        return merged

    def moved(self) -> Dict[str, bool]:
        merged: Dict[str, bool] = {}
        for rank in self.ranks:
            for name, has_moved in rank.get("moved", {}).items():
                merged[name] = merged.get(name, False) or has_moved
        return merged

    @property
    def masters(self) -> bool:
        """The optimizer steps float32 copies, from which half precision weights of the models are written anew."""
        rows = [row for rank in self.ranks for row in rank.get("trainable", []) if not row["optimized"]]
        strange = self.every("strange")
        return (
            bool(rows)
            and all(row["dtype"] == "float16" for row in rows)
            and {row["dtype"] for row in strange} == {"float32"}
            and sum(row["elements"] for row in strange) >= sum(row["elements"] for row in rows)
            and all(rank.get("copies_moved") for rank in self.ranks)
        )

    @property
    def idle(self) -> bool:
        """Gradients were looked at, and none of any tensor was ever above 0."""
        states = [state for rows in self.gradients().values() for state in rows]
        return bool(states) and set(states) <= {"none", "zero"}

    @property
    def spoiled(self) -> List[str]:
        """Trained tensors that were finite before the first step and are not any more: no later step repairs them."""
        return sorted(set(self.every("spoiled")))

    @property
    def loss_lost(self) -> bool:
        """Losses are not finite, and it matters: weights are ruined, or no step had a gradient to apply.

        One batch that overflows is skipped by a scaler; a number that is only added for a log has no gradient.
        """
        if all(math.isfinite(loss) for loss in self.losses):
            return False
        norms = [row["applied_norm"] for row in self.effective]
        return bool(self.spoiled) or not any(norm is None or 0.0 < norm < math.inf for norm in norms)

    @property
    def clipped_away(self) -> bool:
        """There were gradients, and clipping made all of them 0."""
        return self.idle and any(row["clipped"] and row["grad_norm"] for row in self.attempts)

    @property
    def trainable(self) -> List[Dict[str, Any]]:
        rows = {row["name"]: row for row in reversed(self.every("trainable"))}
        return list(rows.values())


def read_ranks(folder: str) -> Tuple[Dict[str, Any], ...]:
    """Every rank's newest report in that folder, rank 0 first; half a file is no file."""
    found: Dict[int, Dict[str, Any]] = {}
    # What is still being written goes away under its name at any moment: it is not even looked at.
    whole = [os.path.join(folder, name) for name in os.listdir(folder) if REPORT.fullmatch(name)]
    for path in sorted(whole, key=lambda path: os.lstat(path).st_mtime):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        found[int(report["rank"])] = report
    return tuple(found[rank] for rank in sorted(found))


def is_adapter(name: str) -> bool:
    """The tensor belongs to an adapter, by the names that PEFT and hand-written ones go by."""
    return ADAPTER.search(name) is not None


def adapter_of(name: str) -> str:
    """PEFT's name of the adapter a tensor belongs to; empty where its name tells none."""
    match = PEFT_NAME.search(name)
    return match.group(1) if match else ""


def error(check: str, message: str, *, where: str = "", hint: str = "", code: ExitCode = ExitCode.PRECISION) -> Finding:
    return Finding.error(check, message, where, hint, code)


def warning(check: str, message: str, *, where: str = "", hint: str = "") -> Finding:
    return Finding.warning(check, message, where, hint)


def good(check: str, message: str) -> Finding:
    return Finding(check, Severity.INFO, message)


def some(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
