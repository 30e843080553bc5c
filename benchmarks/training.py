"""`python -m benchmarks.training`: speed and peak memory of a training step, against plain Transformers with PEFT.

Both train the same Phi-4-multimodal with random weights on the same batches, with one thread, in turn; CPU time is
measured. "plain" is the model's own forward with its loss over all logits, and PEFT's LoRA on the same layers.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from peft import get_peft_model
from transformers import Phi4MultimodalForCausalLM

from benchmarks.memory import PHI4, Row, base_of, batch_of
from remote.payload.training.base_model import (
    BaseModel,
    cast_trainable,
    checkpoint_layers,
    freeze_base,
    lora_config,
    trainable_parameters,
)
from remote.payload.training.memory import LiveBytes
from remote.policy.precision import judge_precision
from remote.protocol.training import LoraSpec

# The share of the logits in all operations is that of the full model: 16 %.
SHAPES = {
    "4 x 330 / 40": Row(PHI4, 384, 6, 4, 330, 40, 0, words=5300),
    "2 x 900 / 120": Row(PHI4, 384, 6, 2, 900, 120, 0, words=5300),
}
PAIRS = 5
LORA = LoraSpec(r=16, alpha=32, dropout=0.0)

Step = Callable[[dict[str, Any]], float]


def main() -> None:
    torch.set_num_threads(1)
    print("| batch | halfstep against plain | samples/s | peak | loss differs by |")
    print("|---|---|---|---|---|")
    for name in sys.argv[1:] or SHAPES:
        row = SHAPES[name]
        layers = row.layers
        for words, ours, plain in (
            ("neither checkpoints (as planned, plain's default)", 0, 0),
            ("both checkpoint every layer", layers, layers),
        ):
            compare(name, words, row, ours, plain)


def compare(name: str, words: str, row: Row, ours: int, plain: int) -> None:
    """Print the median ratios of `PAIRS` pairs of steps, after one pair to warm up."""
    steps = {"ours": halfstep(row, ours), "plain": plain_peft(row, plain)}
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    gap = 0.0
    for pair in range(PAIRS + 1):
        batch, losses = batch_of(row), {}
        for which in sorted(steps, reverse=bool(pair % 2)):
            began = time.process_time()
            losses[which] = steps[which](dict(batch))
            if pair:
                seconds[which].append(time.process_time() - began)
        if not pair:
            gap = abs(losses["ours"] - losses["plain"]) / losses["plain"]
    speed = statistics.median(b / a for a, b in zip(seconds["ours"], seconds["plain"], strict=True))
    peaks = {which: peak_of(step, batch_of(row)) for which, step in steps.items()}
    print(f"| {name} | {words} | {speed:.2f} | {peaks['ours'] / peaks['plain']:.2f} | {gap:.0e} |", flush=True)


def halfstep(row: Row, checkpointed: int) -> Step:
    """Return an optimizer step of the built-in trainer."""
    base, plan = base_of(row), judge_precision(capability=None, requested="fp32")
    torch.manual_seed(0)
    # The weights are those of the plain model: both are created in the same order, with the vision tower.
    model = base.family.model_class._from_config(base.config, dtype=torch.float32, attn_implementation=plan.attention)
    freeze_base(model, base)
    model = adapted(model, base)
    cast_trainable(model, plan)
    checkpoint_layers(model, checkpointed)
    return stepper(model, lambda batch: batch)


def plain_peft(row: Row, checkpointed: int) -> Step:
    """Return an optimizer step of Transformers and PEFT as documented."""
    base = base_of(row)
    torch.manual_seed(0)
    model = Phi4MultimodalForCausalLM._from_config(base.config, dtype=torch.float32, attn_implementation="sdpa")
    model.config.use_cache = False
    model = adapted(model, base)
    if checkpointed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return stepper(model, lambda batch: {name: value for name, value in batch.items() if name != "label_positions"})


def adapted(model: Any, base: BaseModel) -> Any:
    torch.manual_seed(1)
    return get_peft_model(model, lora_config(base, LORA))


def stepper(model: Any, inputs_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Step:
    """Return a function that makes one optimizer step and returns the loss."""
    model.train()
    # Phi-4's audio encoder draws a random streaming mask in training mode, which would make the losses differ.
    model.get_submodule("base_model.model.model.embed_tokens_extend").eval()
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(model)])

    def step(batch: dict[str, Any]) -> float:
        loss = model(**inputs_of(batch)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.detach())

    step.model = model  # type: ignore[attr-defined]
    return step


def peak_of(step: Any, batch: dict[str, Any]) -> int:
    """Return the peak memory of one step, weights included."""
    live = LiveBytes()
    for tensor in (*step.model.parameters(), *step.model.buffers()):
        live.add(tensor)
    with live:
        step(batch)
    return live.peak


if __name__ == "__main__":
    main()
