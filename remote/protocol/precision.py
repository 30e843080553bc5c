"""The precision of a run as a value: dtypes of frozen and trained parameters, autocast and loss scaling."""

from __future__ import annotations

from enum import Enum
from typing import Optional, Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding


class Mode(str, Enum):
    """The four precision modes."""

    BF16 = "bf16"
    FP16_MIXED = "fp16-mixed"
    FP16_PURE = "fp16-pure"
    FP32 = "fp32"


@dataclass(frozen=True)
class PrecisionPlan:
    """The precision settings of a run. Dtypes are torch's names (`float16`).

    If `autocast_dtype` is None, autocast is off. If the requested mode cannot work, `refusal` is the error, and the
    plan is for another mode, which works.
    """

    mode: Mode
    frozen_dtype: str
    trainable_dtype: str
    autocast_dtype: Optional[str]
    scaler: bool
    attention: str
    reduce_dtype: str
    init_scale: float
    because: str
    warnings: Tuple[Finding, ...] = ()
    refusal: Optional[Finding] = None
    tf32: bool = False

    @property
    def ok(self) -> bool:
        """True if the requested mode works."""
        return self.refusal is None

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """The refusal, if there is one, and all warnings."""
        return ((self.refusal,) if self.refusal else ()) + self.warnings


def announce(plan: PrecisionPlan) -> str:
    """Describe the plan in one line, printed before every proof and training job."""
    scaling = f"loss scale from {plan.init_scale:g}" if plan.scaler else "no loss scaling"
    autocast = f"autocast {plan.autocast_dtype}" if plan.autocast_dtype else "no autocast"
    return (
        f"precision {plan.mode.value}: frozen {plan.frozen_dtype}, trainable {plan.trainable_dtype}, {autocast}, "
        f"{scaling}, attention {plan.attention}; because {plan.because}"
    )
