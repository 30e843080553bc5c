"""Models that Accelerate trains are not cast to float32 if half-precision inputs reach them outside autocast."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned

TRAIN = """import torch
from accelerate import Accelerator
from codec import Codec

accelerator = Accelerator(mixed_precision="bf16")
dtype = torch.bfloat16
codec = Codec.from_pretrained("base", torch_dtype=dtype)
optimizer = torch.optim.AdamW(codec.parameters())
{between}codec, optimizer = accelerator.prepare(codec, optimizer)
for batch in loader:
    {call}
    accelerator.backward(loss)
    optimizer.step()
"""
CAST = "parameter.data = parameter.data.float()"


@pytest.mark.parametrize(
    ("call", "converts"),
    [
        ("loss = accelerator.unwrap_model(codec).encode(batch.to(dtype)).mean()", False),
        ("loss = codec.decode(batch.to(dtype)).mean()", False),
        ("loss = codec.module.encode(batch.to(dtype)).mean()", False),
        ("loss = codec(batch.to(dtype)).mean()", True),
        ("loss = codec(tokenizer.encode(batch)).mean()", True),
        ("with accelerator.autocast():\n        loss = codec.encode(batch.to(dtype)).mean()", True),
        ("loss = codec(batch).mean()\n    with torch.no_grad():\n        codec.decode(batch)", True),
    ],
)
def test_a_program_stays_if_it_calls_a_method_of_the_trained_model_outside_autocast(
    tmp_path: Path, call: str, converts: bool
) -> None:
    plan = planned(tmp_path, {"train.py": TRAIN.format(call=call, between="")})
    assert (CAST in changed(plan).get("train.py", "")) is converts
    if not converts:
        assert changed(plan) == {}
        assert any("is called outside autocast" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("between", "casts"),
    [
        ('if args.mixed_precision == "fp16":\n    cast_training_params(codec, dtype=torch.float32)\n', False),
        ("def train_crop(x):\n    return crop.train_step(x)\n\n\ncast_training_params(codec)\n", False),
        ("for each in codec.parameters():\n    each.data = each.data.float()\n", False),
        ("cast_training_params(other)\n", True),
        ("codec.to(torch.float16)\ncast_training_params(other)\n", True),
        ("fit(codec)\ncast_training_params(codec)\n", True),
    ],
)
def test_a_cast_of_the_script_between_the_optimizer_and_the_training_is_recognised(
    tmp_path: Path, between: str, casts: bool
) -> None:
    code = TRAIN.format(call="loss = codec(batch).mean()", between=between)
    after = changed(planned(tmp_path, {"train.py": code}))["train.py"]
    assert (after.count(CAST) > code.count(CAST)) is casts
