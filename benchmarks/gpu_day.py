"""`python -m benchmarks.gpu_day`: every test and measurement that needs a card, in at most ten minutes.

Runs the tests marked `gpu`, then steps of the full Phi-4-multimodal with the rules of a Turing card of 24 GB: float16
weights, autocast and loss scaling, no flash attention, no TF32, memory capped. Compares the built-in trainer with
Transformers and PEFT as documented, and the estimated memory with the allocated memory. The table is written to
docs/benchmarks.md, under the card's name.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from peft import get_peft_model
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Phi4MultimodalConfig

from benchmarks.memory import PHI4, Row, batch_of
from remote.payload.training import attention_mask
from remote.payload.training.base_model import (
    BaseModel,
    cast_trainable,
    checkpoint_layers,
    freeze_base,
    trainable_parameters,
)
from remote.payload.training.families.registry import find_model
from remote.payload.training.fused_lora import fuse_lora
from remote.payload.training.lora import embed_audio, lora_config
from remote.payload.training.memory import Estimator, Shape
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
TURING = judge_precision(capability=(7, 5))
CARD_BYTES = 24 * 2**30
LORA = LoraSpec(r=64, alpha=128, dropout=0.0)
FULL = {"hidden": 3072, "layers": 32, "words": 200_064}
ROWS = (
    Row(PHI4, samples=4, length=350, answer=40, checkpointed=0, **FULL),
    Row(PHI4, samples=8, length=350, answer=40, checkpointed=32, **FULL),
    Row(PHI4, samples=8, length=240, answer=60, checkpointed=32, **FULL),
    Row(PHI4, samples=8, length=900, answer=120, checkpointed=32, **FULL),
)
PAIRS = 5
HEAD = (
    "| batch | layers checkpointed | halfstep, samples/s | plain | ratio | halfstep, GiB | estimate | error "
    "| plain, GiB |"
)
NO_MEMORY = "out of memory"
NO_TIME = "not measured in time"
SHARE_OF_TIME = 0.7
"""No measurement begins after this time, in seconds. The rest is for the last measurement."""


class Card(Protocol):
    """The device that is measured."""

    name: str
    device: torch.device

    def cap(self, size: int) -> None:
        """Limit the memory that this process may allocate to `size` bytes."""

    def wait(self) -> None:
        """Return once all kernels have ended."""

    def reset_peak(self) -> None: ...

    def peak(self) -> int:
        """Return the highest number of bytes that were allocated since `reset_peak`."""


class CudaCard:
    """The first CUDA card."""

    def __init__(self) -> None:
        self.device = torch.device("cuda", 0)
        self.name = torch.cuda.get_device_name(self.device)

    def cap(self, size: int) -> None:
        total = torch.cuda.get_device_properties(self.device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, size / total), self.device)

    def wait(self) -> None:
        torch.cuda.synchronize(self.device)

    def reset_peak(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self.device)


@dataclass(frozen=True)
class Measured:
    """The speed and the peak memory of one variant."""

    samples_per_second: float
    peak_bytes: int


def main(words: list[str] | None = None) -> int:
    """Measure, write the table, and return the exit code of the tests, or 2 without a card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="the time for everything")
    parser.add_argument("--page", type=Path, default=PAGE, help="where the table is written")
    arguments = parser.parse_args(words)
    if not torch.cuda.is_available():
        print("gpu-day needs a CUDA card", file=sys.stderr)
        return 2
    until = time.monotonic() + SHARE_OF_TIME * 60 * arguments.minutes
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests"], check=False)
    outcome = "passed" if tests.returncode == 0 else f"failed with exit code {tests.returncode}"
    day = Day(CudaCard(), full_model, lambda: time.monotonic() > until)
    day.report(ROWS, arguments.page, f"Tests marked `gpu`: {outcome}.")
    return tests.returncode


@dataclass(frozen=True)
class Day:
    """The state of the measurements: the card, the model of a row, and whether time is left for another measurement."""

    card: Card
    base_of: Callable[[Row], BaseModel]
    is_late: Callable[[], bool]

    def report(self, rows: Iterable[Row], page: Path, tests: str) -> None:
        """Measure the rows and write their table to the page, which is saved after each row."""
        lines: list[str] = []
        for row in rows:
            lines.append(self.compare(row))
            print(lines[-1], flush=True)
            day = datetime.datetime.now(tz=datetime.UTC).strftime("%d %B %Y").lstrip("0")
            how = f"`make gpu-day` on {day}, with the rules of a Turing card and {CARD_BYTES / 2**30:.0f} GiB. {tests}"
            table = "\n".join([HEAD, re.sub(r"[^|]+", "---", HEAD), *lines])
            text = with_section(page.read_text("utf-8"), f"On a card: {self.card.name}", f"{how}\n\n{table}")
            page.write_text(text, encoding="utf-8")

    def compare(self, row: Row) -> str:
        """Return the row of the table: halfstep, plain Transformers and PEFT, and the estimate."""
        shape = f"{row.samples} x {row.length} / {row.answer}"
        if self.is_late():
            return f"| {shape} | {row.checkpointed} | {NO_TIME} |{' |' * 6}"
        base = self.base_of(row)
        estimate = Estimator(base, TURING, FRESH, LORA, on_card=True).peak_bytes(
            Shape(row.samples, row.length, row.samples * row.answer), row.checkpointed
        )
        ours, plain = (measure(self.card, row, build, base) for build in (halfstep, plain_peft))
        cells = [shape, str(row.checkpointed), speed(ours), speed(plain)]
        cells.append(f"{ours.samples_per_second / plain.samples_per_second:.2f}" if ours and plain else "")
        cells += [memory(ours), f"{estimate / 2**30:.1f}", f"{estimate / ours.peak_bytes - 1:+.1%}" if ours else ""]
        return f"| {' | '.join([*cells, memory(plain)])} |"


def with_section(page: str, title: str, text: str) -> str:
    """Return the page with a section of that title. A section with the same title is replaced."""
    section = f"## {title}\n\n{text}\n"
    before, found, after = page.partition(f"\n## {title}\n")
    _, more, rest = after.partition("\n## ")
    return f"{before.rstrip()}\n\n{section}" + (f"\n## {rest}" if found and more else "")


def speed(found: Measured | None) -> str:
    return f"{found.samples_per_second:.2f}" if found else NO_MEMORY


def memory(found: Measured | None) -> str:
    return f"{found.peak_bytes / 2**30:.1f}" if found else NO_MEMORY


def full_model(row: Row) -> BaseModel:
    """Return the config of a model with the row's size and the full audio encoder.

    `FULL` is the size of the full model.
    """
    config = Phi4MultimodalConfig(
        hidden_size=row.hidden,
        intermediate_size=row.hidden * 8 // 3,
        num_hidden_layers=row.layers,
        num_attention_heads=row.hidden // 128,
        num_key_value_heads=row.hidden // 384,
        vocab_size=row.words,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        audio_config={"audio_token_id": 1},
        vision_config={"image_token_id": 2},
    )
    return BaseModel("", None, False, config, find_model(PHI4), None, None)


def measure(card: Card, row: Row, build: Callable[[BaseModel, Row], Any], base: BaseModel) -> Measured | None:
    """Return the median speed and the peak memory of some steps, or None if the memory is not sufficient."""
    card.cap(CARD_BYTES)
    card.reset_peak()
    try:
        with turing_rules():
            torch.manual_seed(0)
            with torch.device(card.device):
                model = build(base, row).train()
            # Phi-4's audio encoder draws a random streaming mask in training mode.
            model.get_submodule("base_model.model.model.embed_tokens_extend").eval()
            return timed_steps(card, row, model, labels_located=build is halfstep)
    except torch.OutOfMemoryError:
        return None
    finally:
        card.cap(sys.maxsize)


def timed_steps(card: Card, row: Row, model: Any, *, labels_located: bool) -> Measured:
    """Run one step to warm up, then `PAIRS` timed steps."""
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(model)])
    scaler = torch.amp.GradScaler(card.device.type, init_scale=1024.0)
    seconds = []
    for _ in range(PAIRS + 1):
        batch = {name: value.to(card.device) for name, value in batch_of(row).items()}
        if not labels_located:
            del batch["label_positions"]
        card.wait()
        began = time.perf_counter()
        with torch.autocast(card.device.type, dtype=torch.float16):
            loss = model(**batch, num_items_in_batch=row.samples * row.answer).loss
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        card.wait()
        seconds.append(time.perf_counter() - began)
    return Measured(row.samples / statistics.median(seconds[1:]), card.peak())


def new_model(base: BaseModel) -> Any:
    return base.family.model_class._from_config(base.config, dtype=torch.float16, attn_implementation="sdpa")


def halfstep(base: BaseModel, row: Row) -> Any:
    """Return the model as the built-in trainer prepares it."""
    model = new_model(base)
    freeze_base(model)
    adapted = fuse_lora(get_peft_model(model, lora_config(base, LORA)))
    embed_audio(model, base.family)
    cast_trainable(adapted, TURING)
    checkpoint_layers(adapted, row.checkpointed)
    return adapted


def plain_peft(base: BaseModel, row: Row) -> Any:
    """Return the model as Transformers and PEFT document it, without the vision tower, which halfstep omits too."""
    model = new_model(base)
    model.config.use_cache = False
    adapted = get_peft_model(model, lora_config(base, LORA))
    if row.checkpointed:
        adapted.gradient_checkpointing_enable({"use_reentrant": False})
        adapted.enable_input_require_grads()
    return adapted


@contextlib.contextmanager
def turing_rules() -> Iterator[None]:
    """During the block, disable TF32, and use the attention mask and kernel of compute capability 7.5."""
    usual, tf32 = attention_mask.FLASH, torch.backends.cuda.matmul.allow_tf32
    attention_mask.FLASH = (99, 0)
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            yield
    finally:
        attention_mask.FLASH = usual
        torch.backends.cuda.matmul.allow_tf32 = tf32


if __name__ == "__main__":
    sys.exit(main())
