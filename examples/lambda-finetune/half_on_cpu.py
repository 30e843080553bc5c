"""Makes fp16 on a CPU behave as on a card: accelerate enables autocast and a loss scaler only on a card."""

import torch


def scale_on_cpu(trainer) -> None:
    """Without a card, give the trainer the autocast and the GradScaler that it would have on one."""
    accelerator = trainer.accelerator
    if accelerator.device.type == "cpu" and trainer.args.fp16:
        accelerator.native_amp = True
        accelerator.scaler = torch.amp.GradScaler("cpu")
