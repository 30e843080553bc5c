"""The four precision modes, and the choice of a mode for the card."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """A precision mode. `weights`: the dtype of both models; `autocast`: its dtype, or None if it is off."""

    name: str
    weights: torch.dtype
    autocast: torch.dtype | None


MODES = {
    "bf16": Precision("bf16", torch.bfloat16, torch.bfloat16),
    "fp16-mixed": Precision("fp16-mixed", torch.float16, torch.float16),
    "fp16-pure": Precision("fp16-pure", torch.float16, None),
    "fp32": Precision("fp32", torch.float32, None),
}


def choose(name: str) -> Precision:
    """Return the mode `name`; `auto` selects bf16 if the card supports it."""
    if name == "auto":
        name = "bf16" if torch.cuda.is_bf16_supported() else "fp16-mixed"
    return MODES[name]


def announce(mode: Precision, model: torch.nn.Module, scaler: torch.amp.GradScaler) -> None:
    """Print the settings that are in effect, which may differ from the requested ones."""
    trained = sorted({str(each.dtype) for each in model.parameters() if each.requires_grad})
    frozen = sorted({str(each.dtype) for each in model.parameters() if not each.requires_grad})
    words = [f"frozen {', '.join(frozen)}", f"trained {', '.join(trained)}", f"autocast {mode.autocast or 'off'}"]
    print(f"precision {mode.name}: {'; '.join(words)}; scaler {'on' if scaler.is_enabled() else 'off'}", flush=True)
