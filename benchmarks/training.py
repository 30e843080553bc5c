"""`python -m benchmarks.training [WORD...]`: compare speed and peak memory of the training steps of two variants.

Both variants train the same Phi-4-multimodal with random weights on the same samples, with one thread; speed is
computed from CPU time. The variant "plain" is the model's own forward with its loss over all logits, and PEFT's LoRA on
the same layers. With words, only the comparisons are run whose names contain one of the words.
"""

from __future__ import annotations

import contextlib
import functools
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft import get_peft_model
from peft.tuners.lora import Linear
from transformers import Phi4MultimodalForCausalLM

from benchmarks.memory import PHI4, Row, base_of, batch_of, full_phi4, made_sample
from remote.payload.training import shared_prefix
from remote.payload.training.base_model import (
    cast_trainable,
    checkpoint_layers,
    freeze_base,
    trainable_parameters,
)
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import SAMPLES, Collator
from remote.payload.training.families.registry import find_model
from remote.payload.training.features import Clip
from remote.payload.training.fused_lora import fuse_lora
from remote.payload.training.lora import embed_audio, lora_config
from remote.payload.training.memory import Estimator, LiveBytes, Shape
from remote.payload.training.memory_plan import Device, plan_memory
from remote.payload.training.micro_batches import TOKENS_OF_A_PASS, StepSampler
from remote.payload.training.samples import Sample, SampleSet
from remote.policy.precision import judge_precision
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoopSpec, LoraSpec

# The logits take the same share of all operations as in the full model: 16 %.
ROWS = {
    "2 x 900 / 120": Row(PHI4, 384, 6, 2, 900, 120, 0, words=5300),
    "8 x 350 / 40 (apa)": Row(PHI4, 384, 6, 8, 350, 40, 0, words=5300),
    "8 x 240 / 60 (mdd)": Row(PHI4, 384, 6, 8, 240, 60, 0, words=5300),
    # An eighth of the full model's hidden size, words, tokens and rank; its number of layers and bytes per weight. So
    # weights, logits, the inputs of all layers and the tensors inside one layer take about its shares of the memory.
    "1 x 900 / 120 (scaled)": Row(PHI4, 384, 32, 1, 900, 120, 0, "bf16", rank=8, words=25_008),
}
SHARED = {"4 x (700 + 200)": (4, 700, 80, 120), "8 x (276 + 110)": (8, 276, 52, 58)}
SMALL = Row(PHI4, 256, 4, 0, 0, 0, 0, words=5300)
PAIRS = 5

Batch = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A model, and a function that creates the micro-batches of one optimizer step."""

    model: Any
    optimizer: Any
    plan: PrecisionPlan
    micro_batches: Callable[[], list[Batch]]

    def step(self, micro_batches: Sequence[Batch]) -> float:
        """Run an optimizer step and return its loss, the mean over the labels of all micro-batches."""
        labels = sum(int((batch["labels"] != -100).sum()) for batch in micro_batches)
        total = 0.0
        for batch in micro_batches:
            with self.autocast():
                loss = self.model(**batch, num_items_in_batch=labels).loss
            loss.backward()
            total += float(loss.detach())
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        dtype = getattr(torch, self.plan.autocast_dtype or "float32")
        return torch.autocast("cpu", dtype=dtype, enabled=self.plan.autocast_dtype is not None)

    def peak(self) -> int:
        """Return the peak memory of a step, weights included."""
        micro_batches, live = self.micro_batches(), LiveBytes()
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            live.add(tensor)
        with live:
            self.step(micro_batches)
        return live.peak


def main() -> None:
    torch.set_num_threads(1)
    print("| batch | compared | samples/s | peak | loss differs by |")
    print("|---|---|---|---|---|")
    for name, sides in comparisons().items():
        if not sys.argv[1:] or any(word in name for word in sys.argv[1:]):
            compare(name, *sides())
    if not sys.argv[1:] or "full" in sys.argv[1:]:
        compare_full_model()


def comparisons() -> dict[str, Callable[[], tuple[Variant, Variant]]]:
    """Return the two variants of each comparison, by its name. The first variant is expected to be faster."""
    found: dict[str, Callable[[], tuple[Variant, Variant]]] = {}
    for name, row in ROWS.items():
        for words, count in (("neither checkpoints", 0), ("both checkpoint every layer", row.layers)):
            found[f"{name} | halfstep / plain, {words}"] = functools.partial(against_plain, row, count)
    for name, sizes in SHARED.items():
        found[f"{name} | halfstep, shared prefix / separate rows"] = functools.partial(shared_and_separate, *sizes)
    found["64 samples | halfstep, by tokens and length / random order"] = mixed_lengths
    return found


def compare(name: str, ours: Variant, other: Variant) -> None:
    """Print the median ratios of `PAIRS` pairs of steps, after one pair to warm up."""
    ratios, gap = [], 0.0
    for pair in range(PAIRS + 1):
        seconds, losses = {}, {}
        for variant in (ours, other) if pair % 2 else (other, ours):
            torch.manual_seed(pair)
            micro_batches = variant.micro_batches()
            began = time.process_time()
            losses[id(variant)] = variant.step(micro_batches)
            seconds[id(variant)] = time.process_time() - began
        if pair:
            ratios.append(seconds[id(other)] / seconds[id(ours)])
        else:
            gap = abs(losses[id(ours)] / losses[id(other)] - 1)
    peak = ours.peak() / other.peak()
    print(f"| {name} | {statistics.median(ratios):.2f} | {peak:.2f} | {gap:.0e} |", flush=True)


def against_plain(row: Row, checkpointed: int) -> tuple[Variant, Variant]:
    """Return a variant of the built-in trainer, and a variant of Transformers and PEFT as documented."""

    def plain_batch() -> list[Batch]:
        return [{name: value for name, value in batch_of(row).items() if name != "label_positions"}]

    plain = new_model(row)
    plain.config.use_cache = False
    plain = adapted(plain, row)
    if checkpointed:
        plain.gradient_checkpointing_enable({"use_reentrant": False})
    return halfstep(row, checkpointed, lambda: [batch_of(row)]), variant_of(plain, row, plain_batch)


def shared_and_separate(count: int, prompt: int, audio: int, answer: int) -> tuple[Variant, Variant]:
    """Return two variants with equal text before the audio, which is computed once, or for each sample."""
    row = ROWS["2 x 900 / 120"]
    samples = [made_sample(number, prompt, audio, answer) for number in range(count)]
    return (
        halfstep(row, 0, lambda: collated([samples], shared_prefix.MOST_WORK)),
        halfstep(row, 0, lambda: collated([samples], 0.0)),
    )


def mixed_lengths() -> tuple[Variant, Variant]:
    """Return two variants of steps of 64 samples: divided by the trainer, and in random order in micro-batches of 8.

    The samples alternate between the two prompts of `paper_r64`; durations are lognormal around 4 s.
    """
    draw = random.Random(0)
    samples = []
    for number in range(64):
        seconds = min(20.0, draw.lognormvariate(1.25, 0.5))
        prompt, answer = ((276, 25), (125, 10 + int(11 * seconds)))[number % 2]
        samples.append(made_sample(number, prompt, int(12.5 * seconds), answer))
    # As in `paper_r64`, an optimizer step takes 64 samples, and a micro-batch as many tokens as 8 of the longest.
    memory = plan_memory(LoopSpec(), samples, Device("", 1), SMALL.layers, lambda shape, checkpointed: 0)
    order = EpochOrder(lambda epoch: list(range(64)), [len(sample) for sample in samples], 64, 42)
    data = SampleSet(tuple(samples), (), clip_of)
    (divided,) = StepSampler(order, data, memory, pass_tokens=TOKENS_OF_A_PASS["cpu"])
    shuffled = draw.sample(range(64), 64)

    def in_order(micro_batches: Sequence[Sequence[int]]) -> list[Batch]:
        return collated([[samples[i] for i in one] for one in micro_batches], 0.0)

    return (
        halfstep(SMALL, 0, lambda: in_order([one.samples for one in divided])),
        halfstep(SMALL, 0, lambda: in_order([shuffled[at : at + 8] for at in range(0, 64, 8)])),
    )


def collated(micro_batches: Sequence[Sequence[Sample]], most_work: float) -> list[Batch]:
    """Return the micro-batches as tensors. If `most_work` is 0, prefixes are not shared."""
    collator, usual = Collator(find_model(PHI4), None, 0), shared_prefix.MOST_WORK
    shared_prefix.MOST_WORK = most_work
    made = [collator([(sample, clip_of(sample)) for sample in samples]) for samples in micro_batches]
    shared_prefix.MOST_WORK = usual
    return [{name: value for name, value in batch.items() if name != SAMPLES} for batch in made]


def clip_of(sample: Sample) -> Clip:
    first, last = sample.audio
    noise = torch.Generator().manual_seed(int(sample.id))
    return Clip(torch.randn(8 * (last - first), 80, generator=noise), 8 * (last - first), last - first)


def plan_of(row: Row) -> PrecisionPlan:
    return judge_precision(capability=None, requested=row.mode)


def new_model(row: Row) -> Any:
    torch.manual_seed(0)
    return Phi4MultimodalForCausalLM._from_config(
        base_of(row).config, dtype=getattr(torch, plan_of(row).frozen_dtype), attn_implementation="sdpa"
    )  # fmt: skip


def adapted(model: Any, row: Row) -> Any:
    torch.manual_seed(1)
    return get_peft_model(model, lora_config(base_of(row), LoraSpec(r=row.rank, alpha=2 * row.rank, dropout=0.0)))


def halfstep(row: Row, checkpointed: int, micro_batches: Callable[[], list[Batch]]) -> Variant:
    """Return a variant of the built-in trainer with the weights of the plain model."""
    model = new_model(row)
    freeze_base(model)
    with_adapter = fuse_lora(adapted(model, row))
    embed_audio(model, find_model(PHI4))
    cast_trainable(with_adapter, plan_of(row))
    checkpoint_layers(with_adapter, checkpointed)
    return variant_of(with_adapter, row, micro_batches)


def variant_of(model: Any, row: Row, micro_batches: Callable[[], list[Batch]]) -> Variant:
    model.train()
    # Phi-4's audio encoder draws a random streaming mask in training mode, which would make the losses differ.
    model.get_submodule("base_model.model.model.embed_tokens_extend").eval()
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(model)])
    return Variant(model, optimizer, plan_of(row), micro_batches)


def compare_full_model() -> None:
    """Print the peaks of the full Phi-4-multimodal with rank 64 on a Turing card, counted on fake tensors.

    Both variants have float16 weights and no vision tower. Without the precision plan, plain PEFT would have float32
    weights.
    """
    base = full_phi4()
    turing, shape = judge_precision(capability=(7, 5)), Shape(8, 900, 8 * 120)
    ours = Estimator(base, turing, FRESH, LoraSpec(), on_card=True).peak_bytes(shape, 32)
    plain = Estimator(base, turing, FRESH, LoraSpec(), on_card=True)
    for module in plain.model.modules():
        if isinstance(module, (Linear, Phi4MultimodalForCausalLM)):
            vars(module).pop("forward", None)
    needed = plain.peak_bytes(shape, 32)
    print(
        f"\nfull Phi-4-multimodal, 8 x 900 / 120, every layer checkpointed: {ours / 2**30:.1f} GiB against "
        f"{needed / 2**30:.1f} GiB ({ours / needed:.2f})"
    )


if __name__ == "__main__":
    main()
