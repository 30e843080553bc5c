"""`python -m benchmarks.memory [WORD...]`: compare estimated and real peak memory of training steps over 22 shapes.

The real steps run on the CPU with random weights and audio. One counter of the bytes of live tensors measures both the
real steps and the estimate. The estimate uses neither weights nor audio. Then the memory of the config `paper_r64` is
planned for a TITAN RTX. With words (`phi4_multimodal`, `qwen2_audio`, `paper_r64`), only these parts run.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import Phi4MultimodalConfig, Qwen2AudioConfig

from pipeline.config.load import load_config
from remote.payload.training.base_model import (
    BaseModel,
    cast_trainable,
    checkpoint_layers,
    freeze_base,
    trainable_parameters,
)
from remote.payload.training.device import CONTEXT_BYTES
from remote.payload.training.families.registry import find_model
from remote.payload.training.fused_lora import fuse_lora
from remote.payload.training.label_loss import find_labels
from remote.payload.training.lora import lora_config
from remote.payload.training.memory import Estimator, LiveBytes, Shape
from remote.payload.training.memory_plan import Device, plan_memory
from remote.payload.training.recordings import Recording
from remote.payload.training.samples import Sample
from remote.policy.cards import memory_of
from remote.policy.precision import judge_precision
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoopSpec, LoraSpec

PHI4, QWEN2, PAPER = "phi4_multimodal", "qwen2_audio", "paper_r64"
AUDIO_TOKENS = 24


@dataclass(frozen=True)
class Row:
    """One model, precision and micro-batch to measure."""

    family: str
    hidden: int
    layers: int
    samples: int
    length: int
    answer: int
    checkpointed: int
    mode: str = "fp32"
    rank: int = 16
    words: int = 8000


ROWS = (
    Row(PHI4, 256, 6, 4, 300, 40, 0),
    Row(PHI4, 256, 6, 4, 300, 40, 3),
    Row(PHI4, 256, 6, 4, 300, 40, 6),
    Row(PHI4, 256, 6, 1, 900, 120, 6),
    Row(PHI4, 256, 4, 8, 128, 30, 2, words=32_000),
    Row(PHI4, 512, 4, 2, 600, 80, 0),
    Row(PHI4, 512, 4, 2, 600, 80, 4),
    Row(PHI4, 512, 8, 2, 300, 60, 4),
    Row(PHI4, 256, 6, 2, 300, 60, 6, "fp16-mixed", rank=64),
    Row(PHI4, 256, 6, 2, 300, 60, 0, "fp16-mixed", rank=64),
    Row(PHI4, 256, 6, 2, 300, 60, 3, "bf16"),
    Row(QWEN2, 256, 6, 4, 300, 40, 0),
    Row(QWEN2, 256, 6, 4, 300, 40, 3),
    Row(QWEN2, 256, 6, 4, 300, 40, 6),
    Row(QWEN2, 256, 6, 1, 900, 120, 6),
    Row(QWEN2, 256, 4, 8, 128, 30, 2, words=32_000),
    Row(QWEN2, 512, 4, 2, 600, 80, 0),
    Row(QWEN2, 512, 4, 2, 600, 80, 4),
    Row(QWEN2, 512, 8, 2, 300, 60, 4),
    Row(QWEN2, 256, 6, 2, 300, 60, 6, "fp16-mixed", rank=64),
    Row(QWEN2, 256, 6, 2, 300, 60, 0, "fp16-mixed", rank=64),
    Row(QWEN2, 256, 6, 2, 300, 60, 3, "bf16"),
)


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:] or [PHI4, QWEN2, PAPER]
    compare([row for row in ROWS if row.family in words])
    if PAPER in words:
        fit_paper()


def compare(rows: Sequence[Row]) -> None:
    """Print estimated and real peak of each row."""
    if not rows:
        return
    print("| model | hidden x layers | precision | batch | checkpointed | real MB | estimate MB | error | estimate s |")
    print("|---|---|---|---|---|---|---|---|---|")
    errors = []
    for row in rows:
        base, plan = base_of(row), judge_precision(capability=None, requested=row.mode)
        lora = LoraSpec(r=row.rank, alpha=2 * row.rank)
        began = time.process_time()
        estimator = Estimator(base, plan, FRESH, lora, on_card=False)
        estimate = estimator.peak_bytes(Shape(row.samples, row.length, row.samples * row.answer), row.checkpointed)
        seconds = time.process_time() - began
        real = real_peak(row, base, plan, lora)
        errors.append(estimate / real - 1)
        shape = f"{row.samples} x {row.length} / {row.answer}"
        print(
            f"| {row.family} | {row.hidden} x {row.layers} | {row.mode} r{row.rank} | {shape} | {row.checkpointed} "
            f"| {real / 1e6:.0f} | {estimate / 1e6:.0f} | {errors[-1]:+.1%} | {seconds:.1f} |",
            flush=True,
        )
    print(f"\n{len(errors)} shapes, errors from {min(errors):+.1%} to {max(errors):+.1%}")


def fit_paper() -> None:
    """Print the plan of configs/paper_r64.yaml for a TITAN RTX, and its estimate for other divisions.

    The samples are the longest of both prompts: recordings of 20 s. speechocean762 has an average of 4 s.
    """
    config = load_config(PAPER, Path(__file__).parents[1]).config
    loop = LoopSpec(batch_size=config.train.batch_size, gradient_accumulation=config.train.gradient_accumulation)
    turing, card = judge_precision(capability=(7, 5)), "TITAN RTX"
    estimator = Estimator(full_phi4(), turing, FRESH, LoraSpec(**config.lora.model_dump()), on_card=True)
    available = int(loop.memory_share * ((memory_of(card) or 0) - CONTEXT_BYTES))
    samples = [made_sample(0, 276, 250, 25), made_sample(1, 125, 250, 230)]
    plan = plan_memory(loop, samples, Device(card, available), estimator.layers, estimator.peak_bytes)
    print(f"\n{PAPER}: {plan.describe()}; fits: {plan.fits}")
    for count, checkpointed in ((8, 32), (8, 16), (4, 32), (4, 0), (2, 0), (1, 0)):
        shape = Shape(count, plan.length, count * 231)
        needed = estimator.peak_bytes(shape, checkpointed)
        print(f"{count} x {plan.length}, {checkpointed} of 32 layers checkpointed: {needed / 2**30:.1f} GiB")


def full_phi4() -> BaseModel:
    """Return the base model of the full Phi-4-multimodal."""
    config = Phi4MultimodalConfig(num_attention_heads=24, tie_word_embeddings=True)
    return BaseModel("", None, False, config, find_model(PHI4), None, None)


def made_sample(number: int, prompt: int, audio: int, answer: int) -> Sample:
    """Return a sample whose text comes before the audio. Prompts of the same length have equal text."""
    text = random.Random(prompt)
    before = tuple(text.randrange(3, 5300) for _ in range(prompt))
    own = random.Random(f"answer {number}")
    return Sample(
        id=str(number),
        task="",
        recording=Recording(str(number), bytes),
        target="",
        prompt=(*before, *[1] * audio, 3, 4),
        answer=tuple(own.randrange(3, 5300) for _ in range(answer)),
        end=(5,),
        audio=(prompt, prompt + audio),
    )


def base_of(row: Row) -> BaseModel:
    """Return the base model of a row: its config and family, without tokenizer."""
    sizes: dict[str, Any] = {
        "vocab_size": row.words,
        "hidden_size": row.hidden,
        "intermediate_size": 3 * row.hidden,
        "num_hidden_layers": row.layers,
        "num_attention_heads": row.hidden // 64,
        "num_key_value_heads": row.hidden // 128,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    config: Any
    if row.family == PHI4:
        config = Phi4MultimodalConfig(
            **sizes,
            original_max_position_embeddings=2048,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75},
            audio_config={
                "hidden_size": 96, "intermediate_size": 192, "num_blocks": 2, "num_attention_heads": 4,
                "ext_pw_out_channel": 96, "depthwise_separable_out_channel": 96, "nemo_conv_channels": 32,
                "audio_token_id": 1,
            },
            vision_config={
                "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
                "image_size": 56, "crop_size": 56, "image_token_id": 2,
            },
        )  # fmt: skip
    else:
        audio = {
            "model_type": "qwen2_audio_encoder", "num_mel_bins": 64, "d_model": 96, "encoder_layers": 2,
            "encoder_attention_heads": 4, "encoder_ffn_dim": 192, "max_source_positions": 50,
        }  # fmt: skip
        config = Qwen2AudioConfig(audio_config=audio, text_config={"model_type": "qwen2", **sizes}, audio_token_index=1)
    return BaseModel("", None, False, config, find_model(row.family), None, None)


def real_peak(row: Row, base: BaseModel, plan: PrecisionPlan, lora: LoraSpec) -> int:
    """Return the peak memory of two optimizer steps with real tensors. The second step has two micro-batches."""
    torch.manual_seed(0)
    model = base.family.model_class._from_config(
        base.config, dtype=getattr(torch, plan.frozen_dtype), attn_implementation=plan.attention
    )
    freeze_base(model)
    model = fuse_lora(get_peft_model(model, lora_config(base, lora)))
    cast_trainable(model, plan)
    checkpoint_layers(model, row.checkpointed)
    model.train()
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(model)])
    live = LiveBytes()
    for tensor in (*model.parameters(), *model.buffers()):
        live.add(tensor)
    dtype = getattr(torch, plan.autocast_dtype or "float32")
    with live:
        for micro_batches in (1, 2):
            for _ in range(micro_batches):
                batch = batch_of(row)
                with torch.autocast("cpu", dtype=dtype, enabled=plan.autocast_dtype is not None):
                    loss = model(**batch).loss
                loss.backward()
                del loss, batch
            optimizer.step()
            optimizer.zero_grad()
    return live.peak


def batch_of(row: Row) -> dict[str, Any]:
    """Return a micro-batch of random tokens with audio. The second half of its rows is padded."""
    ids = torch.randint(3, row.words, (row.samples, row.length))
    ids[:, 4 : 4 + AUDIO_TOKENS] = 1
    mask = torch.ones_like(ids)
    mask[row.samples // 2 :, -5:] = 0
    labels = torch.full_like(ids, -100)
    labels[:, -row.answer - 5 : -5] = ids[:, -row.answer - 5 : -5]
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels, "label_positions": find_labels(labels)}
    if row.family == PHI4:
        frames = 8 * AUDIO_TOKENS
        return {
            **batch,
            "audio_input_features": torch.randn(row.samples, frames, 80),
            "audio_embed_sizes": torch.full((row.samples,), AUDIO_TOKENS),
            "audio_attention_mask": torch.ones(row.samples, frames, dtype=torch.bool),
        }
    return {
        **batch,
        "input_features": torch.randn(row.samples, 64, 100),
        "feature_attention_mask": (torch.arange(100) < 4 * AUDIO_TOKENS + 1).long().repeat(row.samples, 1),
    }


if __name__ == "__main__":
    main()
