"""Faults of training code that no edit repairs safely are reported with their line."""

import pytest

from fixers.code import attention_to_sdpa, bf16_to_fp16, scaler_gate
from tests.fixers.code.training_code import outcome

KERNEL = "from flash_attn import flash_attn_func\nout = flash_attn_func(q, k, v)\n"
TRIED = "try:\n    from flash_attn import flash_attn_func\nexcept ImportError:\n    flash_attn_func = None\n"
CALLED = "this calls flash_attn_func, which does not run on this card"
CLIPS = """scaler = torch.amp.GradScaler("cuda")
scaler.scale(loss).backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
"""
PREPARED = """from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="fp16")
accelerator.backward(loss)
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
RECEIVED = """def step(accelerator, model, loss):
    accelerator.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
SCANS = """def train(loss):
    scaler.scale(loss).backward()
    scaler.step(optimizer)

def find_batch_size(loss):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (KERNEL, [2]),
        (TRIED + "if flash_attn_func is not None:\n    out = flash_attn_func(q, k, v)\n", [6]),
        ("import flash_attn\nout = flash_attn.flash_attn_varlen_func(q, k, v)\n", [2]),
        (KERNEL + "out = flash_attn_func(k, k, v)\n", [2]),
        (KERNEL.replace("out", "if torch.cuda.get_device_capability() >= (8, 0):\n    out"), []),
        ("from mine import flash_attn_func\nout = flash_attn_func(q, k, v)\n", []),
        ("from flash_attn import flash_attn_func\n", []),
    ],
)
def test_a_call_of_the_kernels_of_flash_attention_is_reported_once(code, lines):
    after, findings = outcome(attention_to_sdpa, code)
    assert after == code
    assert [line for line, _ in findings] == lines
    assert all("which does not run on this card" in message for _, message in findings)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (CLIPS, [3]),
        (CLIPS.replace("torch.nn.utils.clip", "scaler.unscale_(optimizer)\ntorch.nn.utils.clip"), []),
        (CLIPS.replace("scaler.scale(loss).backward()", "loss.backward()"), []),
        (CLIPS.replace("torch.nn.utils.clip_grad_norm_", "mine.clip"), []),
        (PREPARED, [5]),
        (PREPARED.replace("torch.nn.utils.clip", "accelerator.clip"), []),
        (PREPARED.replace('"fp16"', '"bf16"'), []),
        (PREPARED.replace("torch.nn", "accelerator.unscale_gradients()\ntorch.nn"), []),
        (PREPARED.replace('mixed_precision="fp16"', ""), [5]),
        (PREPARED.replace('"fp16"', "args.mixed_precision"), [5]),
        (PREPARED.replace('"fp16"', '"no"'), []),
        (PREPARED.partition("accelerator =")[2].replace('Accelerator(mixed_precision="fp16")', "import torch"), []),
        (RECEIVED, [3]),
        (RECEIVED.replace("accelerator", "engine"), []),
        (SCANS, []),
        (SCANS.replace("    loss.backward", "    scaler.scale(loss).backward"), [7]),
    ],
)
def test_clipping_of_scaled_gradients_is_reported(code, lines):
    after, findings = outcome(scaler_gate, code)
    assert after == code
    assert [line for line, message in findings if "clipped before they are unscaled" in message] == lines


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("model = (load(torch.bfloat16))[0]\n", "model = (load(torch.float16))[0]\n"),
        ("model = load(dtype=torch.bfloat16)['model']\n", "model = load(dtype=torch.float16)['model']\n"),
        ("size = sizes[torch.bfloat16]\n", "size = sizes[torch.bfloat16]\n"),
        ("dtype = [torch.bfloat16, torch.float16][fp16]\n", "dtype = [torch.bfloat16, torch.float16][fp16]\n"),
        ("model = load(dtype=torch.bfloat16).to('cuda')\n", "model = load(dtype=torch.float16).to('cuda')\n"),
    ],
)
def test_a_call_whose_result_is_used_at_once_is_changed(before, after):
    assert outcome(bf16_to_fp16, before) == (after, [])
