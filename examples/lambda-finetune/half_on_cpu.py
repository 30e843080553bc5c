"""Makes a CPU behave like a card: accelerate enables autocast and a loss scaler for fp16 on accelerators only."""

import torch


def scale_on_cpu(trainer) -> None:
    """Without a card, the trainer has the autocast and the GradScaler that it would have with one."""
    accelerator = trainer.accelerator
    if accelerator.device.type == "cpu" and trainer.args.fp16:
        accelerator.native_amp = True
        accelerator.scaler = torch.amp.GradScaler("cpu")
