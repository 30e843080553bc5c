"""Precision errors raised by the installed torch are recognised by their catalog entries."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pipeline.diagnosis.catalog import identify

RAISED = [
    ("fft-half", "torch.fft.rfft(torch.rand(400).half())"),
    (
        "fft-half",
        "torch.stft(torch.rand(4000).bfloat16(), 400, window=torch.ones(400).bfloat16(), return_complex=True)",
    ),
    ("stft-complex", "torch.stft(torch.rand(4000), 400, 160, 400, torch.ones(400))"),
    ("stft-complex", "torch.rand(4000).stft(400, window=torch.ones(400))"),
    ("stft-complex", "torch.istft(torch.rand(201, 9, 2), 400, window=torch.ones(400))"),
    ("complex-half", "torch.exp(torch.rand(3, dtype=torch.complex64).to(torch.complex32))"),
    ("complex-half", "torch.view_as_complex(torch.rand(3, 2).bfloat16())"),
    ("kernel-half", "F.ctc_loss(torch.rand(5, 1, 4).bfloat16(), torch.ones(1, 2).long(), [5], [2])"),
    ("kernel-half", "torch.linalg.inv(torch.rand(3, 3).bfloat16())"),
    ("kernel-half", "torch.quantile(torch.rand(3).half(), 0.5)"),
    ("scatter-dtype", "torch.zeros(3).half().index_put_((torch.tensor([0]),), torch.rand(1))"),
    ("scatter-dtype", "torch.zeros(3).half().masked_scatter(torch.ones(3).bool(), torch.rand(3))"),
    ("scatter-dtype", "torch.zeros(3).half().index_add_(0, torch.tensor([0]), torch.rand(1))"),
    ("scatter-dtype", "torch.zeros(3).half().index_copy_(0, torch.tensor([0]), torch.rand(1))"),
    ("scatter-dtype", "torch.zeros(3).half().scatter_(0, torch.tensor([0]), torch.rand(1))"),
    ("mat1-mat2-dtype", "torch.addmm(torch.rand(3).half(), torch.rand(2, 3), torch.rand(3, 3))"),
    ("mat1-mat2-dtype", "torch.baddbmm(torch.rand(1, 2, 3).half(), torch.rand(1, 2, 3), torch.rand(1, 3, 3))"),
    ("mat1-mat2-dtype", "torch.dot(torch.rand(3).half(), torch.rand(3))"),
    ("rnn-dtype", "nn.LSTM(3, 3).half()(torch.rand(2, 1, 3))"),
    ("norm-dtype", "nn.LayerNorm(3).half()(torch.rand(2, 3))"),
    ("input-bias-dtype", "F.conv1d(torch.rand(2, 3, 3).half(), torch.rand(3, 3, 1).half(), torch.rand(3))"),
    ("ids-half", "nn.Embedding(3, 3)(torch.rand(3).half())"),
    ("target-dtype", "F.cross_entropy(torch.rand(3, 3), torch.rand(3))"),
    ("numpy-bf16", "torch.rand(3).bfloat16().numpy()"),
    ("gradient-dtype", "setattr(nn.Parameter(torch.rand(3).half()), 'grad', torch.rand(3))"),
    ("inplace-dtype", "torch.zeros(3).long().add_(torch.rand(3))"),
    ("torch-dtype-name", "getattr(torch, 'bf16')"),
    ("dtype-json", "json.dumps({'dtype': torch.bfloat16})"),
    ("half-overflow", "torch.rand(3).half().masked_fill(torch.ones(3).bool(), -1e9)"),
    ("lerp-end-bf16", "torch.zeros(3).lerp_(torch.zeros(3).half(), 0.5)"),
    ("found-float-expected-half", "F.huber_loss(torch.rand(3, requires_grad=True).half(), torch.rand(3)).backward()"),
]
PROGRAM = """
import json, sys, torch
from torch import nn
from torch.nn import functional as F
for line in json.load(sys.stdin):
    try:
        eval(line)
        print("nothing was raised")
    except Exception as why:
        print(f"{type(why).__name__}: {why}".splitlines()[0])
"""


@pytest.fixture(scope="module")
def messages():
    lines = [line for _, line in RAISED]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(lines), capture_output=True, text=True, check=True
    )
    return dict(zip(lines, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(("name", "line"), RAISED, ids=lambda value: value[:60])
def test_what_torch_raises_is_in_the_catalog(messages, name, line):
    entry = identify(messages[line])
    assert entry is not None, messages[line]
    assert entry.id == name, messages[line]
