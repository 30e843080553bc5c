"""Float16 needs mixed precision: weights stay as they are where nothing selects it, and no cast is inserted alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned
from tests.fixers.plans.project_plan import warned

TRAINER = """import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("base", torch_dtype=torch.{dtype})
model = get_peft_model(model, LoraConfig())
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
BFLOAT16, FLOAT16 = TRAINER.format(dtype="bfloat16"), TRAINER.format(dtype="float16")
LAUNCH = "accelerate launch train.py --learning_rate 3e-4 --output_dir out {more}\n"
PLAIN, HALF = LAUNCH.format(more=""), LAUNCH.format(more="--fp16")
CAST = "parameter.data = parameter.data.float()"
QUANTISED = BFLOAT16.replace("torch_dtype=", "quantization_config=BitsAndBytesConfig(bnb_4bit_compute_dtype=").replace(
    "bfloat16)", "bfloat16), torch_dtype=torch.bfloat16)"
)


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": BFLOAT16, "run.sh": PLAIN},
        {"train.py": QUANTISED, "README.md": f"    {PLAIN}", "run.sh": LAUNCH.format(more="--full_precision")},
    ],
    ids=["a script", "quantised weights"],
)
def test_weights_stay_in_bfloat16_if_no_command_selects_mixed_precision(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    assert "selects mixed precision, so that nothing scales the loss" in warned(plan)


SELECTED = {
    "a command": {"run.sh": LAUNCH.format(more="--bf16 True")},
    "one of two commands": {"run.sh": PLAIN, "other.sh": LAUNCH.format(more="--bf16")},
    "the launcher": {"run.sh": PLAIN.replace("launch", "launch --mixed_precision bf16")},
    "a config": {"run.sh": LAUNCH.format(more="--deepspeed ds.json"), "ds.json": '{"bf16": {"enabled": true}}\n'},
    "no command": {},
}


@pytest.mark.parametrize("files", SELECTED.values(), ids=SELECTED)
def test_weights_become_float16_if_mixed_precision_may_be_selected(tmp_path: Path, files: dict[str, str]) -> None:
    assert "torch_dtype=torch.float16" in changed(planned(tmp_path, {"train.py": BFLOAT16, **files}))["train.py"]


def test_weights_become_float16_if_the_code_selects_mixed_precision(tmp_path: Path) -> None:
    train = BFLOAT16.replace("trainer = ", "args = TrainingArguments('out', bf16=True)\ntrainer = ")
    after = changed(planned(tmp_path, {"train.py": train, "run.sh": PLAIN}))["train.py"]
    assert "torch.float16" in after and "fp16=True" in after and CAST in after


UNSCALED = {
    "no setting": {"run.sh": PLAIN},
    "no command": {},
    "a setting that is off": {"run.sh": LAUNCH.format(more="--fp16 False")},
    "a command of another script": {
        "run.sh": PLAIN,
        "other.py": FLOAT16.replace("args,", "given,"),
        "other.sh": HALF.replace("train", "other"),
    },
    "a block that follows an option": {"run.sh": PLAIN, "ds.json": '{"fp16": {"enabled": "auto"}}\n'},
    "a dtype of a part": {"run.sh": PLAIN, "train.py": FLOAT16 + 'tower = build(precision="fp16")\n'},
}


@pytest.mark.parametrize("files", UNSCALED.values(), ids=UNSCALED)
def test_a_cast_is_not_inserted_alone_if_nothing_selects_float16(tmp_path: Path, files: dict[str, str]) -> None:
    assert "train.py" not in changed(planned(tmp_path, {"train.py": FLOAT16, **files}))


SCALED = {
    "a command": {"run.sh": HALF},
    "a document": {"README.md": f"    {HALF}"},
    "a config of DeepSpeed": {
        "run.sh": f"{PLAIN}python train.py --deepspeed ds.json\n",
        "ds.json": '{"fp16": {"enabled": true}}\n',
    },
    "a config of Accelerate": {"accelerate.yaml": "distributed_type: MULTI_GPU\nmixed_precision: fp16\n"},
    "the code": {"run.sh": PLAIN, "train.py": FLOAT16.replace("trainer =", "args.fp16 = True\ntrainer =")},
    "a default": {
        "run.sh": PLAIN,
        "train.py": FLOAT16.replace(
            "(args,) =",
            "class Own(TrainingArguments):\n    fp16: bool = field(\n        default=True,\n    )\n\n\n(args,) =",
        ),
    },
}


@pytest.mark.parametrize("files", SCALED.values(), ids=SCALED)
def test_a_cast_is_inserted_alone_if_a_setting_selects_float16(tmp_path: Path, files: dict[str, str]) -> None:
    assert CAST in changed(planned(tmp_path, {"train.py": FLOAT16, **files}))["train.py"]


def test_a_module_of_a_program_that_needs_flash_attention_gets_no_cast_of_its_own(tmp_path: Path) -> None:
    started = "from flash_attn import flash_attn_func\nfrom train import run\n\nrun(flash_attn_func)\n"
    train = FLOAT16.replace("(args,)", "def run(attend):\n    pass\n\n\n(args,)")
    files = {"train.py": train, "train_flash.py": started, "run.sh": "torchrun train_flash.py --bf16 True\n"}
    assert changed(planned(tmp_path, files)) == {}
