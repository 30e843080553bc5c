"""Recognise configs of Accelerate, DeepSpeed, Axolotl, LLaMA-Factory and halfstep."""

from __future__ import annotations

import re

from fixers.sources.config_files import is_json, is_yaml

ACCELERATE = re.compile(rb"^(?:compute_environment|distributed_type)[ ]*:", re.MULTILINE)
DEEPSPEED = re.compile(rb"[\"']?(?:zero_optimization|train_micro_batch_size_per_gpu|zero_stage)[\"']?[ ]*:")
OF_TOOLS = (
    (re.compile(rb"^base_model[ ]*:", re.MULTILINE), re.compile(rb"^(?:datasets|micro_batch_size)[ ]*:", re.MULTILINE)),
    (re.compile(rb"^stage[ ]*:", re.MULTILINE), re.compile(rb"^finetuning_type[ ]*:", re.MULTILINE)),
)
"""Pairs of top-level keys that identify a config of Axolotl or LLaMA-Factory."""
OURS = re.compile(rb"^(?:fixers|lora|logs|grace_s)[ ]*:", re.MULTILINE)


def is_known_format(path: str, data: bytes) -> bool:
    """Return True if the file has the keys of a known library or tool. These tools accept float16 for each key."""
    if is_json(path):
        return DEEPSPEED.search(data) is not None
    if not is_yaml(path):
        return False
    tool = any(all(pattern.search(data) for pattern in pair) for pair in OF_TOOLS)
    return tool or any(pattern.search(data) for pattern in (ACCELERATE, DEEPSPEED, OURS))


def is_of_accelerate(path: str, data: bytes) -> bool:
    """Return True for a config of `accelerate launch`."""
    return is_yaml(path) and ACCELERATE.search(data) is not None


def is_of_deepspeed(data: bytes) -> bool:
    """Return True for a config of DeepSpeed, or a config that contains one."""
    return DEEPSPEED.search(data) is not None
