"""The precision plan that `fixers: {runtime: auto}` applies in the training process, as an environment variable."""

from __future__ import annotations

import json
from typing import Dict

from remote.protocol.precision import Mode, PrecisionPlan

RUNTIME = "HALFSTEP_RUNTIME"
"""The environment variable of a job and of its proof that contains the plan as JSON."""
VERSION = 1
MODES = (Mode.BF16, Mode.FP16_MIXED)
"""The modes that the hooks can apply. Other modes leave the command unchanged."""


def runtime_environment(plan: PrecisionPlan) -> Dict[str, str]:
    """Return the environment variables with which the hooks apply this plan, or {} if the mode needs no change."""
    if plan.mode not in MODES:
        return {}
    values = {
        "mode": plan.mode.value,
        "frozen": plan.frozen_dtype,
        "trained": plan.trainable_dtype,
        "autocast": plan.autocast_dtype or "",
        "scaler": plan.scaler,
        "init_scale": plan.init_scale,
    }
    return {RUNTIME: json.dumps(values, sort_keys=True)}
