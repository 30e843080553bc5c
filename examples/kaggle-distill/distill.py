"""Distils a frozen teacher into a routed student, in any of four precisions."""

import argparse
import contextlib
import os
from pathlib import Path

import torch
from models import WIDTH, Student, Teacher
from precision import MODES, Precision, announce, choose
from torch.nn import functional as F
from torch.utils.tensorboard import SummaryWriter

TEMPERATURE = 2.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", choices=["auto", *MODES], default="auto")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=11)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    mode = choose(arguments.precision)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(arguments.seed)
    teacher = Teacher().to(device, mode.weights).eval().requires_grad_(False)
    student = Student().to(device, mode.weights)
    distil(teacher, student, mode, arguments.steps, device)
    folder = Path(os.environ.get("HALFSTEP_OUTPUT_DIR", "out"))
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(
        {name: value for name, value in student.named_parameters() if value.requires_grad}, folder / "student.pt"
    )


def distil(teacher, student, mode: Precision, steps: int, device: str) -> None:
    """Train the student to imitate the teacher, on new inputs at every step."""
    amp_dtype = mode.autocast
    optimizer = torch.optim.AdamW([p for p in student.parameters() if p.requires_grad], lr=5e-3)
    scaler = torch.amp.GradScaler(device)
    announce(mode, student, scaler)
    writer = SummaryWriter(os.environ.get("TENSORBOARD_LOGGING_DIR", "tensorboard"))
    weights = next(teacher.parameters()).dtype
    for step in range(1, steps + 1):
        inputs = torch.randn(64, WIDTH, device=device).to(weights)
        mixed = torch.autocast(device, dtype=amp_dtype) if amp_dtype is not None else contextlib.nullcontext()
        with mixed:
            with torch.no_grad():
                wanted, wanted_hidden = teacher(inputs)
            given, hidden = student(inputs)
        loss = distillation_loss(given, wanted, hidden, wanted_hidden)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        writer.add_scalar("train/loss", loss.item(), step)
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    writer.close()


def distillation_loss(given, wanted, hidden, wanted_hidden):
    """Return the loss of softened outputs (Hinton et al. 2015) and hidden states (Romero et al. 2015)."""
    soft = F.kl_div(
        F.log_softmax(given / TEMPERATURE, dim=-1), F.softmax(wanted / TEMPERATURE, dim=-1), reduction="batchmean"
    )
    return TEMPERATURE**2 * soft + F.mse_loss(hidden, wanted_hidden)


if __name__ == "__main__":
    main()
