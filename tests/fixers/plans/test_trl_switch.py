"""TRL computes in bfloat16 unless fp16 is set: commands and configs that select a dtype only get the switch too."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers
from tests.fixers.plans.project_plan import changed, planned

OF_TRL = """from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser

training_args, model_args = TrlParser((SFTConfig, ModelConfig)).parse_args_and_config()
trainer = SFTTrainer(model=model_args.model_name_or_path, args=training_args, train_dataset=data)
trainer.train()
"""
OTHER_FORM = OF_TRL.replace("TrlParser", "HfArgumentParser").replace("SFTConfig", "DPOConfig")
OF_TRAINER = """from transformers import HfArgumentParser, Trainer, TrainingArguments

training_args, model_args = HfArgumentParser((TrainingArguments, ModelArguments)).parse_args_into_dataclasses()
Trainer(model=load(model_args), args=training_args, train_dataset=data).train()
"""


@pytest.mark.parametrize(
    ("script", "command", "after"),
    [
        (OF_TRL, "python sft.py --torch_dtype bfloat16\n", "python sft.py --fp16 True --torch_dtype float16\n"),
        (OTHER_FORM, "python ./sft.py --dtype=bfloat16\n", "python ./sft.py --fp16 True --dtype=float16\n"),
        (OF_TRL, "python sft.py --torch_dtype bfloat16 --bf16\n", "python sft.py --torch_dtype float16 --fp16\n"),
        (OF_TRL, "python sft.py --config a.yaml --dtype bfloat16\n", "python sft.py --config a.yaml --dtype float16\n"),
        (OF_TRAINER, "python sft.py --dtype bfloat16\n", "python sft.py --dtype float16\n"),
    ],
)  # fmt: skip
def test_a_command_that_selects_only_a_dtype_of_trl_gets_the_switch(
    tmp_path: Path, script: str, command: str, after: str
) -> None:
    plan = planned(tmp_path, {"sft.py": script, "run.sh": command})
    assert changed(plan)["run.sh"] == after
    apply_to_disk(tmp_path, plan)
    assert plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()


ARGUMENTS = "output_dir: out\ntorch_dtype: bfloat16\n"


@pytest.mark.parametrize(
    ("script", "path", "before", "after"),
    [
        (OF_TRL, "a.yaml", ARGUMENTS, "output_dir: out\nfp16: true\ntorch_dtype: float16\n"),
        (OTHER_FORM, "a.yml", "dtype: bfloat16\noutput_dir: o\n", "fp16: true\ndtype: float16\noutput_dir: o\n"),
        (OF_TRL, "a.yaml", f"{ARGUMENTS}bf16: true\n", "output_dir: out\ntorch_dtype: float16\nfp16: true\n"),
        (OF_TRL, "a.yaml", "torch_dtype: bfloat16\n", "torch_dtype: float16\n"),
        (OF_TRL, "a.json", '{"output_dir": "o", "dtype": "bfloat16"}', '{"output_dir": "o", "dtype": "float16"}'),
        (OF_TRAINER, "a.yaml", ARGUMENTS, "output_dir: out\ntorch_dtype: float16\n"),
    ],
)  # fmt: skip
def test_arguments_that_select_only_a_dtype_of_trl_get_the_switch(
    tmp_path: Path, script: str, path: str, before: str, after: str
) -> None:
    (tmp_path / path).write_bytes(before.encode())
    plan = planned(tmp_path, {"sft.py": script})
    assert changed(plan)[path] == after
    apply_to_disk(tmp_path, plan)
    assert plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()
