import pytest
import torch
from torch import autocast


@torch.autocast("cuda", dtype=torch.bfloat16)
def forward(x):
    return x


@autocast("cpu", torch.bfloat16)
def on_the_processor(x):
    return x


@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_it(dtype):
    assert dtype
