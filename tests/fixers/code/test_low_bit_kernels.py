"""Kernels for low-bit formats keep bfloat16. They are recognised by their path and by what they compute with."""

from __future__ import annotations

from tests.fixers.code.test_left_alone import TORCH, planned


def test_kernels_for_low_bit_formats_are_known_by_their_path() -> None:
    text = TORCH + "out = torch.empty(4, dtype=torch.bfloat16)\n"
    assert planned(text, "kernels/cutlass_fp4/mm.py").change is None
    assert planned(text, "kernels/mm.py").change is not None
    packed = text + "out = torch.ops.aten._weight_int4pack_mm(out, w, 32, s)\n"
    assert planned(packed, "tools/quantize.py").change is None
    assert planned("import triton\n" + text + "MAX = FP8_MAX_VALUE\n").change is None
    assert planned("import triton\n" + text).change is not None
    assert planned(text, "model/realquantize/linear.py").change is None
    assert planned(text, "tools/quantize.py").change is not None
