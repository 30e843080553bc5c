"""A command that passes an option which its script rejects never starts, and is not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.plans.rejected_commands import REJECTED, accepted_by
from tests.fixers.plans.program_files import changed, planned

SCRIPT = """from dataclasses import dataclass, field

import transformers
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer


@dataclass
class ModelArguments:
    model_name: str = "base"


@dataclass
class Arguments(transformers.TrainingArguments):
    bits: int = field(default=16)
    merge: bool = field(default=True)


parser = HfArgumentParser({classes})
model_args, args = parser.{parse}
model = AutoModelForCausalLM.from_pretrained(model_args.model_name)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
TRAIN = SCRIPT.format(classes="(ModelArguments, Arguments)", parse="parse_args_into_dataclasses()")
START = "deepspeed --master_port=16971 --include=localhost:0 train.py --bf16 --bits 4 {more} --output_dir out\n"
RIGHT = START.format(more="--learning_rate 1e-4")
WRONG = START.format(more="\\\n    --use_lora True \\\n   ")


@pytest.mark.parametrize("wrong", [WRONG, WRONG + WRONG], ids=["one", "several"])
def test_a_command_that_the_parser_rejects_stays(tmp_path: Path, wrong: str) -> None:
    plan = planned(tmp_path, {"train.py": TRAIN, "run.sh": RIGHT, "lora.sh": wrong})
    assert changed(plan) == {"run.sh": RIGHT.replace("bf16", "fp16")}
    assert ("lora.sh", REJECTED) in {(each.where, each.reason) for each in plan.skipped}


@pytest.mark.parametrize(
    ("script", "command"),
    [
        (TRAIN, RIGHT),
        (TRAIN, RIGHT + WRONG),
        (TRAIN, START.format(more="--no_merge --learning-rate 1e-4 --per_device_train_batch 4")),
        (SCRIPT.format(classes="(Own, Arguments)", parse="parse_args_into_dataclasses()"), WRONG),
        (
            SCRIPT.format(
                classes="(ModelArguments, Arguments)", parse="parse_args_into_dataclasses(return_remaining_strings=1)"
            ),
            WRONG,
        ),
        (TRAIN.replace("class Arguments(transformers.", "class Arguments(own."), WRONG),
    ],
    ids=["all known", "one of two", "other spellings", "a class of another file", "other strings", "another base"],
)
def test_a_command_that_the_parser_may_accept_is_changed(tmp_path: Path, script: str, command: str) -> None:
    assert "--fp16" in changed(planned(tmp_path, {"train.py": script, "run.sh": command}))["run.sh"]


def test_the_fields_of_all_classes_are_accepted() -> None:
    found = accepted_by("train.py", TRAIN.encode())
    assert {"model_name", "bits", "merge", "bf16", "deepspeed"} <= found
    assert accepted_by("train.py", SCRIPT.format(classes="Arguments", parse="parse_args()").encode()) == frozenset()


def test_classes_that_derive_from_each_other_have_unknown_fields() -> None:
    circle = TRAIN.replace("class Arguments(transformers.TrainingArguments)", "class Arguments(ModelArguments)")
    assert not accepted_by(
        "train.py", circle.replace("class ModelArguments", "class ModelArguments(Arguments)").encode()
    )
    assert "model_name" in accepted_by("train.py", circle.encode())


@pytest.mark.parametrize("bases", ["A{0}, A{0}", "A{0}"], ids=["each base twice", "a chain of 600"])
def test_SE_12_the_fields_of_each_class_are_read_once(bases: str) -> None:
    count = 40 if "," in bases else 600
    classes = "".join(f"class A{at + 1}({bases.format(at)}):\n    x{at}: int = 1\n" for at in range(count))
    code = TRAIN.replace("parser = ", f"class A0:\n    a: int = 1\n{classes}\nparser = ")
    code = code.replace("ModelArguments, Arguments)", f"A{count}, Arguments)")
    found = accepted_by("train.py", code.encode())
    assert ("x0" in found) is (count == 40)
