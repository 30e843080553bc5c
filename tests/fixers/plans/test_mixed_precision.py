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
OLD_PEFT = {"requirements.txt": "peft==0.11.1\n"}
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
    after = changed(planned(tmp_path, {"train.py": train, "run.sh": PLAIN, **OLD_PEFT}))["train.py"]
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
    assert CAST in changed(planned(tmp_path, {"train.py": FLOAT16, **files, **OLD_PEFT}))["train.py"]


def test_a_module_of_a_program_that_needs_flash_attention_gets_no_cast_of_its_own(tmp_path: Path) -> None:
    started = "from flash_attn import flash_attn_func\nfrom train import run\n\nrun(flash_attn_func)\n"
    train = FLOAT16.replace("(args,)", "def run(attend):\n    pass\n\n\n(args,)")
    files = {"train.py": train, "train_flash.py": started, "run.sh": "torchrun train_flash.py --bf16 True\n"}
    assert changed(planned(tmp_path, files)) == {}


DOCUMENTED = LAUNCH.format(more="--bf16 True")
DEEPSPEED = LAUNCH.format(more="--bf16 True --deepspeed ds.json")
FIXED, AUTO = '{"bf16": {"enabled": true}}\n', '{"bf16": {"enabled": "auto"}}\n'


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ({"README.md": f"    {DEEPSPEED}", "ds.json": FIXED}, "ds.json"),
        ({"docs/training.md": f"    {DOCUMENTED}"}, "train.py"),
        ({"docs/training.md": f"    {PLAIN.replace('launch', 'launch --mixed_precision=bf16')}"}, "train.py"),
    ],
    ids=["a config", "a dtype", "the launcher"],
)
def test_settings_stay_that_must_agree_with_a_document(tmp_path: Path, files: dict[str, str], kept: str) -> None:
    plan = planned(tmp_path, {"train.py": BFLOAT16, **files})
    assert kept not in changed(plan)
    assert "starts a program with --bf16, which fix does not edit" in warned(plan)


AGREES = {
    "a block that follows an option": ({"README.md": f"    {DEEPSPEED}", "ds.json": AUTO}, "ds.json"),
    "a command beside the document": (
        {"README.md": f"    {DEEPSPEED}", "ds.json": FIXED, "run.sh": DEEPSPEED},
        "ds.json",
    ),
    "a document that fails on this card": (
        {"README.md": f"    {DEEPSPEED.strip()} --tf32 True\n", "ds.json": FIXED},
        "ds.json",
    ),
    "a document without a switch": (
        {"README.md": f"    {DEEPSPEED.replace(' --bf16 True', '')}", "ds.json": FIXED},
        "ds.json",
    ),
    "a switch that is off": ({"README.md": f"    {DEEPSPEED.replace('True', 'False')}", "ds.json": FIXED}, "ds.json"),
}


@pytest.mark.parametrize(("files", "edited"), AGREES.values(), ids=AGREES)
def test_settings_are_changed_that_agree_with_every_command(tmp_path: Path, files: dict[str, str], edited: str) -> None:
    assert "fp16" in changed(planned(tmp_path, {"train.py": BFLOAT16, **files}))[edited]


def test_attention_is_replaced_beside_settings_that_stay(tmp_path: Path) -> None:
    train = BFLOAT16.replace("torch.bfloat16)", "torch.bfloat16, attn_implementation='flash_attention_2')")
    after = changed(planned(tmp_path, {"train.py": train, "README.md": f"    {DOCUMENTED}"}))["train.py"]
    assert "attn_implementation='sdpa'" in after and "torch.bfloat16" in after


def test_a_cast_is_inserted_alone_if_a_document_selects_bfloat16(tmp_path: Path) -> None:
    document = "    torchrun --module speech.train --bf16 --output_dir out\n"
    files = {"speech/train.py": FLOAT16, "speech/__init__.py": "", "README.md": document, **OLD_PEFT}
    assert CAST in changed(planned(tmp_path, files))["speech/train.py"]


PROBED = """import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

{choice}
config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=dtype)
model = AutoModelForCausalLM.from_pretrained("base", quantization_config=config)
args = TrainingArguments("out", {precision})
if options.dtype == "fp16":
    raise ValueError("fp16 is not supported")
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
CHOICES = (
    "dtype = torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float16",
    "dtype = torch.float16\nif torch.cuda.is_bf16_supported() or torch.xpu.is_available():\n    dtype = torch.bfloat16",
)


@pytest.mark.parametrize("choice", CHOICES, ids=["an expression", "a branch"])
def test_a_test_for_bfloat16_beside_fp16_is_replaced_in_a_program_that_stays(tmp_path: Path, choice: str) -> None:
    plan = planned(tmp_path, {"train.py": PROBED.format(choice=choice, precision="fp16=True")})
    after = changed(plan)["train.py"]
    assert "stays in bfloat16" in warned(plan)
    assert "get_device_capability() >= (8, 0)" in after and "torch.bfloat16" in after


@pytest.mark.parametrize("precision", ["bf16=True", "bf16=False, fp16=False"])
def test_a_test_for_bfloat16_without_fp16_stays_with_its_program(tmp_path: Path, precision: str) -> None:
    assert changed(planned(tmp_path, {"train.py": PROBED.format(choice=CHOICES[0], precision=precision)})) == {}


def test_a_test_for_bfloat16_in_a_module_stays_with_its_program(tmp_path: Path) -> None:
    module = f"import torch\n\n{CHOICES[0]}\nHINT = 'pass bf16=True or fp16=True'\n"
    train = PROBED.format(choice="from model import dtype", precision="fp16=True")
    assert changed(planned(tmp_path, {"train.py": train, "model.py": module})) == {}
