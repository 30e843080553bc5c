"""Code stays that runs only if an argument or option is set which nothing of the project sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.plans.untaken_branches import UNTAKEN
from tests.fixers.plans.program_files import LOOP, changed, planned

PADS = """import torch


class Rows:
    def __init__(self, rows, {argument}):
        self.rows = rows


def tokenize(size, tokenizer, row, {argument}):
    input_ids, labels = tokenizer(row), tokenizer(row)
    if {test}:
        labels = labels + [tokenizer.pad_token_id] * (size - len(labels))
    return input_ids, labels
"""
CALLS = "from functools import partial\n\nfrom data import tokenize\n\n" + LOOP.replace(
    "in loader", "in loader.map({call})"
)
UNSET = {
    "partial": ("fixed=False", "fixed and size > len(labels)", "partial(tokenize, 512, tokenizer)"),
    "a direct call": ("fixed=None", "fixed", "tokenize(512, tokenizer, row)"),
    "a keyword-only argument": ("*, fixed=0", "size > 3 and fixed", "tokenize(512, tokenizer, row=row)"),
}
SET = {
    "by name": ("fixed=False", "fixed", "partial(tokenize, 512, tokenizer, fixed=True)"),
    "by position": ("fixed=False", "fixed", "tokenize(512, tokenizer, row, True)"),
    "by unpacked options": ("fixed=False", "fixed", "tokenize(512, tokenizer, row, **options)"),
    "by unknown code": ("fixed=False", "fixed", "tokenize"),
    "by default": ("fixed=True", "fixed", "tokenize(512, tokenizer, row)"),
    "not needed": ("fixed=False", "fixed or size > 3", "tokenize(512, tokenizer, row)"),
}
OPTION = """from argparse import ArgumentParser

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

parser = ArgumentParser()
parser.add_argument("--use_flash_attention", {declared})
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(
    "base", attn_implementation="flash_attention_2" if args.use_flash_attention else None
)
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=data).train()
"""
FIELD = OPTION.replace("from argparse import ArgumentParser", "from dataclasses import dataclass, field").replace(
    'parser = ArgumentParser()\nparser.add_argument("--use_flash_attention", {declared})\nargs = parser.parse_args()',
    "\n@dataclass\nclass Options:\n    use_flash_attention: bool = {declared}\n\n\n(args,) = parse(Options)",
)
RUN = "torchrun train.py --lr 3{more}\n"
OFF = {
    "a switch": OPTION.format(declared='action="store_true"'),
    "an option": OPTION.format(declared="type=bool, default=False"),
    "a field": FIELD.format(declared="False"),
    "a field with a description": FIELD.format(declared='field(default=False, metadata={"help": "faster"})'),
}
FLASH = '"flash_attention_2" if'


@pytest.mark.parametrize(("argument", "test", "call"), UNSET.values(), ids=UNSET)
def test_a_branch_stays_whose_argument_no_call_passes(tmp_path: Path, argument: str, test: str, call: str) -> None:
    files = {"data.py": PADS.format(argument=argument, test=test), "train.py": CALLS.format(call=call)}
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == {"train.py"}
    assert [each.where for each in plan.skipped if each.reason == UNTAKEN] == ["data.py:12"]


@pytest.mark.parametrize(("argument", "test", "call"), SET.values(), ids=SET)
def test_a_branch_is_changed_that_a_call_may_select(tmp_path: Path, argument: str, test: str, call: str) -> None:
    files = {"data.py": PADS.format(argument=argument, test=test), "train.py": CALLS.format(call=call)}
    assert "[-100]" in changed(planned(tmp_path, files))["data.py"]


def test_a_branch_is_changed_whose_argument_the_function_sets(tmp_path: Path) -> None:
    code = PADS.format(argument="fixed=False", test="fixed").replace(
        "    input_ids, labels", "    fixed = fixed or row.long\n    input_ids, labels"
    )
    files = {"data.py": code, "train.py": CALLS.format(call="tokenize(512, tokenizer, row)")}
    assert "[-100]" in changed(planned(tmp_path, files))["data.py"]


@pytest.mark.parametrize("script", OFF.values(), ids=OFF)
def test_attention_stays_behind_an_option_that_no_command_passes(tmp_path: Path, script: str) -> None:
    files = {"train.py": script, "run.sh": "# slow without --use_flash_attention\n" + RUN.format(more="")}
    after = changed(planned(tmp_path, files))["train.py"]
    assert FLASH in after
    assert "fp16=True" in after


@pytest.mark.parametrize("script", OFF.values(), ids=OFF)
@pytest.mark.parametrize(
    "files",
    [
        {"run.sh": RUN.format(more=" --use-flash-attention True")},
        {"run.sh": RUN.format(more=""), "README.md": "# Pass --use_flash_attention\n"},
        {"run.sh": RUN.format(more=""), "fast.yaml": "use_flash_attention: true\n"},
        {"run.sh": RUN.format(more=""), "sweep.py": "args.use_flash_attention = card >= 80\n"},
        {"run.sh": RUN.format(more=""), "sweep.py": "options = dict(use_flash_attention=True, lr=1)\n"},
        {"run.sh": "torchrun other.py\n", "other.py": "print(1)\n"},
    ],
    ids=["a command", "a document", "a config", "an assignment", "a keyword", "no known start"],
)
def test_attention_is_replaced_behind_an_option_that_may_be_set(
    tmp_path: Path, script: str, files: dict[str, str]
) -> None:
    assert FLASH not in changed(planned(tmp_path, {"train.py": script, **files}))["train.py"]


def test_attention_is_replaced_behind_an_option_that_is_on_by_default(tmp_path: Path) -> None:
    script = FIELD.format(declared="field(default=not TURING)")
    assert FLASH not in changed(planned(tmp_path, {"train.py": script, "run.sh": RUN.format(more="")}))["train.py"]
