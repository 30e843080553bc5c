"""A base model in NF4: the linear layers of the decoder have weights of four bits (QLoRA, arXiv 2305.14314)."""

from __future__ import annotations

import importlib.util
import re
from typing import Any, List, Optional, Tuple

import torch
from transformers import BitsAndBytesConfig

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.audio_model import AudioModel
from remote.protocol.exits import ExitCode
from remote.protocol.precision import PrecisionPlan

BLOCK = 64
"""The number of weights that share a scale, which is quantized to one byte."""
BLOCK_OF_SCALES = 256
"""The number of scales that share a second-level scale of four bytes."""


def quantization_config(quantization: Optional[str], family: AudioModel, plan: PrecisionPlan) -> Any:
    """Return the `quantization_config` of `from_pretrained`, or None if the base model is not quantized.

    Raises TrainingFailed if bitsandbytes is not installed.
    """
    if quantization is None:
        return None
    if importlib.util.find_spec("bitsandbytes") is None:
        message = "model.quantization: nf4 needs bitsandbytes, which this interpreter does not have"
        hint = "pip install bitsandbytes"
        raise TrainingFailed("bitsandbytes-missing", message, hint=hint, exit_code=ExitCode.ENVIRONMENT)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype(plan),
        llm_int8_skip_modules=["lm_head", *family.audio],
    )


def compute_dtype(plan: PrecisionPlan) -> torch.dtype:
    """Return the dtype of products with quantized weights: float16 on cards without bfloat16."""
    dtype: torch.dtype = getattr(torch, plan.autocast_dtype or plan.frozen_dtype)
    return dtype


def use_fake_nf4(model: Any, family: AudioModel, plan: PrecisionPlan) -> None:
    """Replace the layers that bitsandbytes would quantize with layers that need the same memory."""
    for path, linear in _quantized_layers(model, family):
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, FakeNf4(linear, compute_dtype(plan)))


def round_to_nf4(model: Any, family: AudioModel, plan: PrecisionPlan) -> None:
    """Round the decoder's weights, in float32, to the values that training in NF4 uses.

    Raises TrainingFailed if bitsandbytes is not installed.
    """
    quantization_config("nf4", family, plan)
    from bitsandbytes import functional  # noqa: PLC0415 - an optional dependency

    for _, linear in _quantized_layers(model, family):
        weight = linear.weight.data.to(getattr(torch, plan.frozen_dtype))
        packed, state = functional.quantize_4bit(weight, blocksize=BLOCK, compress_statistics=True, quant_type="nf4")
        linear.weight.data = functional.dequantize_4bit(packed, state).float()


def _quantized_layers(model: Any, family: AudioModel) -> List[Tuple[str, Any]]:
    inside = re.compile(rf"{family.decoder.path}\.")
    linears = ((path, module) for path, module in model.named_modules() if isinstance(module, torch.nn.Linear))
    return [(path, linear) for path, linear in linears if inside.match(path)]


class FakeNf4(torch.nn.Linear):  # type: ignore[misc]
    """A linear layer that needs as many bytes as a layer in NF4, and creates its full weight in each pass."""

    def __init__(self, linear: Any, dtype: torch.dtype) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, dtype=dtype)
        packed = torch.empty(nf4_bytes(linear.weight.numel()), dtype=torch.uint8)
        self.weight = torch.nn.Parameter(packed, requires_grad=False)
        if self.bias is not None:
            self.bias.requires_grad = False
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = _Product.apply(x.to(self.dtype), (self.out_features, self.in_features))
        return (out if self.bias is None else out + self.bias).to(x.dtype)


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """A product whose weight exists only while the product is computed, as in bitsandbytes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: Tuple[int, int]) -> torch.Tensor:
        ctx.shape = shape
        return x @ x.new_empty(shape).t()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return gradients[0] @ gradients[0].new_empty(ctx.shape), None


def nf4_bytes(weights: int) -> int:
    """Return the size in bytes of `weights` weights in NF4 with double quantization."""
    scales = -(-weights // BLOCK)
    return weights // 2 + scales + 4 * -(-scales // BLOCK_OF_SCALES)
