"""Train the denoiser, sharded over the processes that torchrun starts, and keep the best model."""

import argparse
import gc
import os
from pathlib import Path

import torch
import torch.distributed as dist
from denoiser import Block, Denoiser
from pictures import PATCHES, PIXELS, add_noise, make_pictures
from schedules import make_schedule
from torch.distributed.fsdp import FullStateDictConfig, MixedPrecision, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler
from torch.utils.tensorboard import SummaryWriter

MIXED = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.float32)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedule", choices=("cosine", "step"), default="cosine")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--output_dir", type=Path, default=Path(os.environ.get("HALFSTEP_OUTPUT_DIR", "out")))
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    rank = int(os.environ["RANK"])
    on_cards = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_cards else "gloo")
    if on_cards:
        torch.cuda.set_device(rank)
    device = torch.device("cuda", rank) if on_cards else torch.device("cpu")
    torch.manual_seed(0)
    train(arguments, rank, device)
    gc.collect()  # The sharded model keeps the process group alive, whose threads abort Python at exit.
    dist.destroy_process_group()


def train(arguments: argparse.Namespace, rank: int, device: torch.device) -> None:
    """Train for all epochs and keep the model with the lowest validation loss."""
    model = Denoiser(PATCHES, PIXELS).to(device)
    model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({Block}), mixed_precision=MIXED, device_id=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
    scaler = ShardedGradScaler(device=device.type)
    pictures = make_pictures(320, seed=1)
    sampler = DistributedSampler(pictures, seed=2)
    loader = DataLoader(pictures, arguments.batch_size, sampler=sampler)
    schedule = make_schedule(arguments.schedule, optimizer, arguments.epochs * len(loader))
    writer = SummaryWriter(os.environ.get("TENSORBOARD_LOGGING_DIR", "tensorboard")) if rank == 0 else None
    best, step = float("inf"), 0
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for clean in loader:
            loss = denoising_loss(model, clean.to(device))
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            model.clip_grad_norm_(1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            schedule.step()
            step += 1
            if writer is not None:
                writer.add_scalar("train/loss", loss.item(), step)
                print(f"epoch {epoch + 1} step {step} loss {loss.item():.4f}", flush=True)
        validation = validate(model, device)
        if validation < best:
            best = validation
            save_best(model, arguments.output_dir, rank, device)
        if rank == 0:
            print(f"epoch {epoch + 1} validation {validation:.4f} best {best:.4f}", flush=True)
    if writer is not None:
        writer.close()


def denoising_loss(model: FSDP, clean: torch.Tensor) -> torch.Tensor:
    """Return the Huber loss between the predicted noise and the noise that was added to the pictures."""
    time = torch.rand(len(clean), device=clean.device)
    noise = torch.randn_like(clean)
    noisy = add_noise(clean, time, noise).to(torch.bfloat16)
    return F.huber_loss(model(noisy, time), noise)


@torch.no_grad()
def validate(model: FSDP, device: torch.device) -> float:
    """Return the mean loss of all ranks over held-out pictures, always with the same noise."""
    model.eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3 + dist.get_rank())
        loss = denoising_loss(model, make_pictures(64, seed=4).to(device)).float()
    model.train()
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size()


def save_best(model: FSDP, folder: Path, rank: int, device: torch.device) -> None:
    """Save the full model, gathered from all shards, to one file atomically."""
    whole = FullStateDictConfig(offload_to_cpu=device.type == "cuda", rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, whole):
        state = model.state_dict()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / "best.pt.part")
        (folder / "best.pt.part").replace(folder / "best.pt")


if __name__ == "__main__":
    main()
