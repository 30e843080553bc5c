"""The card step: a few steps of a small LoRA model on the real device, in the planned precision."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding
from remote.protocol.hidden import Identifier
from remote.protocol.precision import PrecisionPlan

QUEUE_S = 1800.0
"""The longest wait in Slurm's queue for a compute node."""


@dataclass(frozen=True)
class CardRequest:
    """The interpreter and the settings to try.

    `python` is the host file's interpreter. If `gpus` is None, all cards are used. `slurm` contains the srun options to
    run the step on a compute node, or None to run it on the host itself.
    """

    project: str
    python: str
    plan: PrecisionPlan
    gpus: Optional[Tuple[int, ...]] = None
    environment: Dict[str, str] = field(default_factory=dict)
    deadline_s: float = 180.0
    slurm: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class CardFacts:
    """The measurements of the card step.

    `losses` contains the loss of each of 20 steps over the same four samples, or None if the loss is not finite.
    `loss_gap` is the relative difference between the first loss and the same loss computed in float32. `padding_gap` is
    the relative difference between the loss of a padded batch and the loss of the same rows without padding. If the
    device failed, `error` is set and the other fields contain the measurements so far.
    """

    device: Identifier
    capability: Optional[Tuple[int, int]] = None
    torch: Identifier = ""
    losses: Tuple[Optional[float], ...] = ()
    scale: Optional[float] = None
    skipped: int = 0
    loss_gap: Optional[float] = None
    padding_gap: Optional[float] = None
    trained_dtypes: Tuple[Identifier, ...] = ()
    state_dtypes: Tuple[Identifier, ...] = ()
    attention: Identifier = ""
    resumed_equal: Optional[bool] = None
    peak_bytes: Optional[int] = None
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class CardReport:
    """The measured facts, and the findings that follow from them."""

    facts: CardFacts
    findings: Tuple[Finding, ...] = ()
