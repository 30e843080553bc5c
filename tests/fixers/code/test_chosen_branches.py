"""Branches that run only if an option selects bfloat16 stay, if the code has a branch for float16."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import FileOutcome, plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.project_plan import changed, planned, warned

ENGINE = """def engine(config):
    if config.precision == "fp16":
        return {"fp16": {"enabled": True}}
    elif config.precision == "bfloat16":
        if not config.block:
            config.block = {"bf16": {"enabled": True}}
        return config.block
"""
SWITCHED = """from transformers import TrainingArguments


def arguments(config):
    if config.dtype == "half":
        return TrainingArguments("out", fp16=True)
    if config.dtype == "bf16":
        return TrainingArguments("out", bf16=True)
"""
IN_DICT = ENGINE.replace('{"bf16": {"enabled": True}}', '{"bf16": True, "steps": 3}')
WITHIN_PAIR = """class Softmax:
    def __init__(self, in_fp16, in_bf16, wide):
        self.in_fp16 = in_fp16
        self.in_bf16 = in_bf16
        self.narrow = self.in_fp16 or self.in_bf16
        self.wide = wide

    def forward(self, x):
        y = softmax(x.float() if self.narrow else x)
        if self.narrow and self.wide:
            if self.in_fp16:
                y = y.half()
            else:
                y = y.bfloat16()
        return y
"""
DIRECT_PAIR = """def narrow(model, use_half, use_bfloat16):
    if use_half or use_bfloat16:
        if use_half:
            model.half()
        else:
            model.bfloat16()
"""


def _planned(text: str) -> FileOutcome:
    return plan_file("src/train.py", text.encode(), source_fixers(), Target(TITAN_RTX))


@pytest.mark.parametrize("text", [ENGINE, SWITCHED, IN_DICT, WITHIN_PAIR, DIRECT_PAIR])
def test_a_branch_that_only_bfloat16_reaches_stays(text: str) -> None:
    assert _planned(text).change is None


@pytest.mark.parametrize(
    "text",
    [
        ENGINE.replace('"bfloat16"', '"large"'),
        SWITCHED.replace('config.dtype == "bf16"', "config.dtype"),
        IN_DICT.replace('"fp16"', '"fp32"'),
        WITHIN_PAIR.replace("self.narrow = self.in_fp16 or self.in_bf16", "self.narrow = self.in_fp16 or wide"),
        WITHIN_PAIR.replace("if self.narrow and self.wide:", "if self.wide:"),
        DIRECT_PAIR.replace("use_half or use_bfloat16", "use_half or use_fast"),
        DIRECT_PAIR.replace("use_half or use_bfloat16", "use_half and use_bfloat16"),
        "def narrow(model, use_half):\n    if use_half:\n        model.half()\n    else:\n        model.bfloat16()\n",
    ],
)
def test_a_similar_branch_that_other_options_reach_is_changed(text: str) -> None:
    change = _planned(text).change
    assert change is not None
    assert b"bfloat16()" not in change.after


def test_a_value_in_a_call_inside_print_is_changed() -> None:
    computed = "import torch\n\nprint(model(x.to(torch.bfloat16)), x.bfloat16())\n"
    change = _planned(computed).change
    assert change is not None and b"bfloat16" not in change.after
    assert _planned("import torch\n\nprint(torch.bfloat16, x.dtype == torch.bfloat16)\n").change is None


OPTIONS = """import torch


class Options:
    def derive(self):
        if self.bf16 and self.bf16.get("enabled"):
            if self.precision is None:
                self.precision = "bfloat16"
            else:
                assert self.precision == "bfloat16", "conflict"

    @property
    def dtype(self):
        if self.precision == "fp16":
            return torch.float16
        elif self.precision == "bfloat16":
            return torch.bfloat16
        raise ValueError(self.precision)
"""


def test_an_assertion_in_the_other_branch_of_a_condition_does_not_restrict_all_programs(tmp_path: Path) -> None:
    files = {"options.py": OPTIONS, "speech.yaml": "precision: bfloat16\n"}
    assert changed(planned(tmp_path, files)) == {"speech.yaml": "precision: fp16\n"}
    always = OPTIONS.replace('if self.bf16 and self.bf16.get("enabled"):', "for _ in range(1):")
    plan = planned(tmp_path / "always", {**files, "options.py": always})
    assert "speech.yaml" not in changed(plan)
    assert "accepts only bfloat16" in warned(plan)


BLOCKS = """def engine(config, use_fp16, use_bf16):
{choice}
    return {{"fp16": {{"enabled": use_fp16}}, "bf16": {{"enabled": use_bf16}}}}
"""
OF_AN_OPTION = {
    "branches": """    if config.precision == "fp16":
        use_fp16 = True
        use_bf16 = False
    elif config.precision == "bf16":
        use_fp16 = False
        use_bf16 = True
""",
    "comparisons": """    use_fp16 = config.precision == "fp16"
    use_bf16 = config.precision == "bf16"
""",
}


@pytest.mark.parametrize("choice", OF_AN_OPTION.values(), ids=OF_AN_OPTION)
def test_blocks_of_deepspeed_stay_if_variables_of_one_option_enable_them(choice: str) -> None:
    assert _planned(BLOCKS.format(choice=choice)).change is None


def test_the_float16_block_of_deepspeed_is_enabled_if_either_variable_is_true() -> None:
    after = _planned(BLOCKS.format(choice="")).change
    assert after is not None
    assert '{"fp16": {"enabled": use_fp16 or use_bf16}, "bf16": {"enabled": False}}' in after.after.decode()


COPIED = """class Net:
    def __init__(self, config):
        self.bf16 = config.bf16
        self.cache = torch.float
        if self.bf16:
            self.cache = torch.bfloat16
        elif {other}:
            self.cache = torch.float16
        if config.bf16:
            self.body.bfloat16()
        if config.fp16:
            self.body.half()
"""


def test_a_branch_of_an_option_that_the_object_copies_stays() -> None:
    assert _planned("import torch\n\n\n" + COPIED.format(other="config.fp16")).change is None


def test_a_branch_of_an_option_is_changed_if_only_the_object_has_a_float16_switch() -> None:
    text = COPIED.format(other="self.narrow").replace("config.fp16", "config.narrow")
    assert _planned("import torch\n\n\n" + text).change is not None
