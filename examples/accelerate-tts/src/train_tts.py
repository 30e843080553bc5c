"""Trains the acoustic model with Accelerate: a warm-up in float32, then everything in mixed precision."""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed.nn  # Imported first: a default argument would keep a later process group alive.
from accelerate import Accelerator
from accelerate.utils import set_seed
from acoustic_model import AcousticModel, tts_loss
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter
from utterances import collate, make_utterances

DTYPES = {"no": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    parser.add_argument("--warm_up_steps", type=int, default=1)
    parser.add_argument("--output_dir", type=Path, default=Path(os.environ.get("HALFSTEP_OUTPUT_DIR", "out")))
    return parser.parse_args()


def make_accelerator(precision: str) -> Accelerator:
    """Return the accelerator.

    Accelerate has float16 only on a card. On a CPU, the loop uses torch's autocast and the scaler that is set here.
    """
    on_cards = torch.cuda.is_available()
    accelerator = Accelerator(cpu=not on_cards, mixed_precision=precision if on_cards else "no")
    if accelerator.scaler is None and precision == "fp16":
        accelerator.scaler = torch.amp.GradScaler(accelerator.device.type)
    return accelerator


def main() -> None:
    arguments = parse_arguments()
    precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    accelerator = make_accelerator(precision)
    train(accelerator, arguments, precision)
    accelerator.free_memory()  # The model keeps the process group alive, whose threads abort Python at exit.
    accelerator.end_training()


def train(accelerator: Accelerator, arguments: argparse.Namespace, precision: str) -> None:
    """Train for all epochs and save the model at the end."""
    set_seed(7)
    model = AcousticModel().to(accelerator.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    utterances = make_utterances(256, seed=11)
    loader = DataLoader(utterances, arguments.batch_size, shuffle=True, collate_fn=collate)
    optimizer, loader = accelerator.prepare(optimizer, loader)
    events = os.environ.get("TENSORBOARD_LOGGING_DIR", "tensorboard")
    writer = SummaryWriter(events) if accelerator.is_main_process else None

    warm_up = next(iter(DataLoader(utterances, arguments.batch_size, collate_fn=collate)))
    for _ in range(arguments.warm_up_steps):
        learn(accelerator, model, optimizer, warm_up, torch.float32)

    model.to(torch.bfloat16)
    model = accelerator.prepare(model)
    step = arguments.warm_up_steps
    for epoch in range(arguments.epochs):
        for batch in loader:
            loss = learn(accelerator, model, optimizer, batch, DTYPES[precision])
            step += 1
            if writer is not None:
                writer.add_scalar("train/loss", loss, step)
                print(f"epoch {epoch + 1} step {step} loss {loss:.4f}", flush=True)
    accelerator.wait_for_everyone()
    if writer is not None:
        writer.close()
        arguments.output_dir.mkdir(parents=True, exist_ok=True)
        torch.save(accelerator.unwrap_model(model).state_dict(), arguments.output_dir / "acoustic_model.pt")


def learn(accelerator, model, optimizer, batch, dtype: torch.dtype) -> float:
    """Take one optimizer step and return the loss before it."""
    batch = {key: value.to(accelerator.device) for key, value in batch.items()}
    with torch.autocast(accelerator.device.type, dtype=dtype, enabled=dtype != torch.float32):
        lengths, predicted = model(batch["phones"], batch["durations"], batch["mel"].shape[1])
    loss = tts_loss(lengths, predicted, batch)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    main()
