"""Recognise files that are not part of training on the card: tests, other frameworks, inference scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, dirname, join

from fixers.frame.modules import Module
from fixers.frame.target import Target
from fixers.sources.copied_libraries import LIBRARIES
from fixers.sources.file_roles import is_for_accelerator, is_foreign

TESTS = "tests"
FOREIGN = "JAX, TensorFlow, MLX or Paddle"
ACCELERATORS = "TPU, NPU, HPU or Intel XPU"
INFERENCE = "scripts that never train"
COPIED = "copies of libraries"
LOW_BIT = "settings for FP8 or FP4, which this card does not support"

IN_TESTS = re.compile(
    r"(?:.*/)?(?:tests?(?:_\w+)?|testing(?:_\w+)?|(?:unit|integration)_?tests?)/"
    r"|(?:.*/)?(?:test_\w+|\w+_test|conftest|testing_utils)\.py$"
)
HARD_CAST = re.compile(rb"\.to\(torch\.bfloat16\)")
FRAMEWORK_WORDS = frozenset({"jax", "flax", "mlx", "paddle", "tensorflow"})
ACCELERATOR_WORDS = frozenset(
    {"tpu", "xla", "pytorch_xla", "npu", "ascend", "hpu", "gaudi", "habana", "ipex", "xpu", "trainium", "neuron"}
)
LOW_BIT_WORDS = frozenset({"fp8", "fp4", "nvfp4", "mxfp4", "mxfp8"})
OTHER_DEVICES = re.compile(rb"\b(?:ASCEND_RT_VISIBLE_DEVICES|HABANA_VISIBLE_\w+|TPU_NAME|PJRT_DEVICE|XRT_TPU_CONFIG)\b")
SCRIPT = re.compile(rb"[\w./-]+\.py\b")
SPLIT = re.compile(r"[-_.]")


def judge_scope(path: str, data: bytes, target: Target) -> str:
    """Return the reason why the file is not part of training on the card.

    The reason is empty if the file may be part of the training.
    """
    if path in target.started:
        return ""
    place = _judge_place(path)
    if place != TESTS and path.startswith(target.code_facts.copies) and not _is_edited(path, data):
        return COPIED
    if place:
        return place
    if path.endswith(".py"):
        return _judge_python(path, data, target)
    return "" if path.endswith(".ipynb") else _judge_settings(path, data, target)


def is_outside(module: Module, target: Target) -> bool:
    """Return True if the module is not part of training on the card.

    Unlike `judge_scope`, do not exclude copies of libraries.
    """
    if module.path in target.started:
        return False
    return module.foreign or module.path in target.code_facts.scripts or bool(_judge_place(module.path))


def _judge_place(path: str) -> str:
    if IN_TESTS.match(path):
        return TESTS
    folders = set(dirname(path).lower().split("/"))
    if folders & FRAMEWORK_WORDS:
        return FOREIGN
    return ACCELERATORS if folders & ACCELERATOR_WORDS else ""


def _is_edited(path: str, data: bytes) -> bool:
    """Return True for a module that always casts to bfloat16: the project has edited this copy of a library."""
    return bool(LIBRARIES.intersection(path.split("/"))) and HARD_CAST.search(data) is not None


def _judge_python(path: str, data: bytes, target: Target) -> str:
    if is_foreign(data):
        return FOREIGN
    if is_for_accelerator(data):
        return ACCELERATORS
    return INFERENCE if path in target.code_facts.scripts else ""


def _judge_settings(path: str, data: bytes, target: Target) -> str:
    words = set(SPLIT.split(basename(path).lower()))
    if words & FRAMEWORK_WORDS:
        return FOREIGN
    if words & LOW_BIT_WORDS and target.below((8, 9)):
        return LOW_BIT
    if words & ACCELERATOR_WORDS or (OTHER_DEVICES.search(data) and b"CUDA_VISIBLE_DEVICES" not in data):
        return ACCELERATORS
    return FOREIGN if target.code_facts.jax and _runs_only_jax(path, data, target.code_facts.jax) else ""


def _runs_only_jax(path: str, data: bytes, jax: tuple[str, ...]) -> bool:
    """Return True if every script that the file names is a JAX script in the file's folder or a parent folder."""
    named = {each.decode("utf-8", "replace") for each in SCRIPT.findall(data)}
    return bool(named) and all(any(join(above, name) in jax for above in _folders_of(path)) for name in named)


def _folders_of(path: str) -> Iterator[str]:
    while path:
        path = dirname(path)
        yield path
