"""Recognise code around kernels that the card cannot run: FP8 and other number formats, and FlashAttention."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import partial

from fixers.sources.names import FUNCTIONS
from fixers.sources.python import PythonSource

CAPABLE_ONLY = "kernels for cards with FP8, FP4 or packed int4"
FLASH_KERNELS = "functions that call kernels of FlashAttention, which do not run on this card"
LOW_BIT = re.compile(
    r"_scaled_mm\b|float8_e\dm\d|Float8Tensor|NVFP4|nvfp4|mxfp[48]|marlin|cutlass|float4_e2m1|\bfp8_\w+\("
)
LOW_BIT_KERNELS = re.compile(rb"^(?:import|from)[ \t]+(?:triton|transformer_engine)\b", re.MULTILINE)
FP8 = re.compile(rb"fp8|float8", re.IGNORECASE)
QUANTISES = re.compile(r"(?:^|/)quanti[sz]e\.py$")
BF16_ONLY = re.compile(rb"\b_weight_int4pack_mm\b")
"""Operators whose CUDA kernels accept only bfloat16."""
INTEGERS = re.compile(rb"[iI]nt[48](?:pack|[A-Z_])")
LOW_BIT_PATH = re.compile(r"(?:^|[-_/])(?:fp[48]|nvfp4|mxfp4|marlin|cutlass|real_?quanti\w*)(?=[-_/.])")


def kernel_around(source: PythonSource, node: ast.expr) -> str:
    """Return the reason to keep a use of bfloat16 in code that does not run on the card, or "" if the code may run."""
    if _is_low_bit(source, node):
        return CAPABLE_ONLY
    return FLASH_KERNELS if _calls_flash_kernel(source, node) else ""


def _is_low_bit(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the function or the file is for number formats of newer cards, judged by names and imports."""
    if BF16_ONLY.search(source.text):
        return True
    if QUANTISES.search(source.path) and INTEGERS.search(source.text):
        return True
    if LOW_BIT_PATH.search(f"/{source.path}") or (LOW_BIT_KERNELS.search(source.text) and FP8.search(source.text)):
        return True
    function = source.names.function(node)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    name = f"low-bit-{function.lineno}"
    return source.remember(name, lambda: LOW_BIT.search(source.segment(function)) is not None)


def _calls_flash_kernel(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the function around the node needs a function of flash_attn whenever it runs."""
    function = source.names.function(node)
    if b"flash_attn" not in source.text or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    name = f"flash-kernel-{function.lineno}"
    return source.remember(name, lambda: _needs_flash_kernel(source, function))


def _needs_flash_kernel(source: PythonSource, function: ast.AST) -> bool:
    always = map(partial(_is_flash_kernel, source), _steps_of(function))
    return any(always) or any(_is_flash_kernel(source, each, "_flash_attn") for each in ast.walk(function))


def _steps_of(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run in every call of the function. Loops are assumed to run at least once."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.If, ast.IfExp, ast.Try, *FUNCTIONS)):
            yield child
            yield from _steps_of(child)


def _is_flash_kernel(source: PythonSource, node: ast.AST, tail: str = "") -> bool:
    called = source.names.meaning(node.func) or "" if isinstance(node, ast.Call) else ""
    return called.startswith("flash_attn.") and called.rpartition(".")[2].startswith(tail)
