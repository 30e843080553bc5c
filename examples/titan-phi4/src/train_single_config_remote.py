"""Fine-tunes the speech adapter of the checkpoint with one named configuration."""

import argparse
import os
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from AudioDataCollator import AudioDataCollator  # noqa: E402
from model_utility_configs import RUNS, allow_tf32, compute_dtype, load_model  # noqa: E402
from speech import make_samples  # noqa: E402
from tiny_phi4mm import Phi4MMProcessor  # noqa: E402

CHECKPOINT = PROJECT / "checkpoint"


def yes(text: str) -> bool:
    return text.lower() in ("true", "1", "yes")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", choices=sorted(RUNS), required=True)
    parser.add_argument("--bf16", type=yes, default=False)
    parser.add_argument("--fp16", type=yes, default=False)
    parser.add_argument("--tf32", type=yes, default=False)
    parser.add_argument("--output_dir", type=Path, default=Path(os.environ.get("HALFSTEP_OUTPUT_DIR", "out")))
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    run = RUNS[arguments.config]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = compute_dtype(arguments.bf16)
    processor = Phi4MMProcessor(CHECKPOINT)
    model = load_model(CHECKPOINT, run, dtype, device)
    loader = DataLoader(
        make_samples(32, run.seed), run.batch_size, shuffle=True, collate_fn=AudioDataCollator(processor)
    )
    next(iter(loader))
    allow_tf32(arguments.tf32)
    print(f"{arguments.config}: {run}, {dtype}, on {device}", flush=True)
    train(model, loader, run, dtype, device)
    save_adapter(model, arguments.output_dir)


def train(model, loader, run, dtype, device) -> None:
    """Train for all epochs, with one optimizer step per `accumulation` batches."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=run.learning_rate)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    writer = SummaryWriter(os.environ.get("TENSORBOARD_LOGGING_DIR", "tensorboard"))
    total, step = 0.0, 0
    for epoch in range(run.epochs):
        for number, batch in enumerate(loader, 1):
            moved = {key: value.to(device) for key, value in batch.items()}
            moved["input_audio"] = moved["input_audio"].to(next(model.audio_encoder.parameters()).dtype)
            with torch.autocast(device, dtype=dtype):
                loss = model(**moved)
            scaler.scale(loss / run.accumulation).backward()
            total += loss.item() / run.accumulation
            if number % run.accumulation:
                continue
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            step += 1
            writer.add_scalar("train/loss", total, step)
            print(f"epoch {epoch + 1} step {step} loss {total:.4f}", flush=True)
            total = 0.0
    writer.close()


def save_adapter(model, folder: Path) -> None:
    """Save only the speech adapter."""
    folder.mkdir(parents=True, exist_ok=True)
    adapter = {name: value for name, value in model.state_dict().items() if ".speech." in name}
    torch.save(adapter, folder / "speech_lora.pt")
    print(f"saved {len(adapter)} tensors to {folder}", flush=True)


if __name__ == "__main__":
    main()
