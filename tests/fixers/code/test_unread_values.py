"""Switches that stand side by side change together; values that nothing on the card reads stay."""

from __future__ import annotations

import pytest

from fixers.code import attention_to_sdpa, bf16_to_fp16
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.sources.source import Source
from fixers.sources.splice import splice
from tests.fixers.casebook import TITAN_RTX

PAIR = """class Settings:
    def __init__(self):
        self.{first}: bool = {one}
        self.{second}: bool = {two}
"""
LADDER = """import torch


def dtype_of(word):
    if word == "none":
        return None
    if word in {"fp16", "float16"}:
        {leave}
    if word in {"bf16", "bfloat16"}:
        return torch.bfloat16
    raise ValueError(word)


args.dtype = "none"
"""
EXPORT = """import json


def export(path, settings):
    settings["dtype"] = "bfloat16"
    {use}
"""
MATMUL = """import torch


def matmul(a, b):
    return torch.{function}(a, b, out_dtype=torch.bfloat16)
"""


def _after(text: str, fixer: SourceFixer = bf16_to_fp16) -> str:
    source = Source("src/train.py", text.encode())
    return splice(source.data, fixer.rewrite(source, Target(TITAN_RTX)).edits).decode()


@pytest.mark.parametrize("switch", ["use_{}", "{}_weights", "train.use_{}"])
def test_two_switches_side_by_side_change_together(switch: str) -> None:
    names = {"first": switch.format("fp16"), "second": switch.format("bf16")}
    assert _after(PAIR.format(one=False, two=True, **names)) == PAIR.format(one=True, two=False, **names)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(PAIR.format(first="use_fp16", one=False, second="use_bf16", two=False), id="both are off"),
        pytest.param(PAIR.format(first="fp32", one=False, second="use_bf16", two=True), id="no float16 switch"),
        pytest.param(PAIR.format(first="use_fp16", one=False, second="no_bf16", two=True), id="a negative switch"),
    ],
)
def test_a_switch_without_its_pair_stays(source: str) -> None:
    assert _after(source) == source


def test_a_function_that_returned_for_float16_already_gets_no_second_branch() -> None:
    source = LADDER.replace("{leave}", "return torch.float16")
    assert _after(source) == source


def test_a_branch_for_float16_that_goes_on_to_fail_is_no_reader_of_it() -> None:
    assert 'elif word in {"fp16", "float16"}' in _after(LADDER.replace("{leave}", "print(word)"))


@pytest.mark.parametrize("use", ["_write_json(path, settings)", "json.dump(settings, path)"])
def test_the_dtype_in_a_file_that_is_written_stays(use: str) -> None:
    source = EXPORT.format(use=use)
    assert _after(source) == source
    assert '"float16"' in _after(EXPORT.format(use="load(path, **settings)"))


def test_operators_of_cards_with_fp8_keep_their_dtype() -> None:
    assert _after(MATMUL.format(function="_scaled_mm")) == MATMUL.format(function="_scaled_mm")
    assert "torch.float16" in _after(MATMUL.format(function="special_mm"))


OPTIONS = """from trl import GRPOConfig, GRPOTrainer, ModelConfig, get_peft_config, get_quantization_config

options = ModelConfig(model_name_or_path="a/b", torch_dtype="bfloat16", attn_implementation="flash_attention_2")
trainer = GRPOTrainer(
    options.model_name_or_path, args=GRPOConfig("out", fp16=True), peft_config=get_peft_config(options)
)
trainer.train()
"""


@pytest.mark.parametrize("more", ["", "print(options.lora_r)\n"])
def test_options_of_a_model_config_that_nothing_reads_stay(more: str) -> None:
    source = OPTIONS + more
    assert _after(source, bf16_to_fp16) == source
    assert _after(source, attention_to_sdpa) == source


@pytest.mark.parametrize(
    "more",
    [
        "model = load(dtype=options.torch_dtype)\n",
        "model = load(get_quantization_config(options))\n",
        "model = load(**vars(options))\n",
        "config = build(options)\n",
    ],
)
def test_options_of_a_model_config_that_code_may_read_are_changed(more: str) -> None:
    assert "float16" in _after(OPTIONS + more, bf16_to_fp16).replace("bfloat16", "")
    assert "sdpa" in _after(OPTIONS + more, attention_to_sdpa)
