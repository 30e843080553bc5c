"""No cast is inserted for adapters that PEFT creates in float32, or for models that TRL loads in float32."""

from __future__ import annotations

import json

import pytest

from fixers.code import trainable_fp32
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.casebook import TITAN_RTX

HEAD = """import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from trl import DPOTrainer, GRPOTrainer, ModelConfig, SFTTrainer, get_peft_config

args = TrainingArguments("out", fp16=True)
"""
HALF = 'model = AutoModelForCausalLM.from_pretrained("a/b", torch_dtype=torch.float16)\n'
FLOAT = 'model = AutoModelForCausalLM.from_pretrained("a/b", torch_dtype=torch.float32)\n'
BITS = 'model = AutoModelForCausalLM.from_pretrained("a/b", load_in_8bit=True, device_map="auto")\n'
NF4 = (
    "bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.float16)\n"
    'model = AutoModelForCausalLM.from_pretrained("a/b", quantization_config=bits, torch_dtype=torch.float16)\n'
)
ADAPTERS = "model = get_peft_model(model, LoraConfig(r=8))\n"
TRAINS = "trainer = Trainer(model=model, args=args)\ntrainer.train()\n"
LORA = "config = LoraConfig(r=8)\n"
ATTACHES = "trainer = SFTTrainer(model=model, args=args, peft_config=config)\ntrainer.train()\n"
ALIGNS = "trainer = DPOTrainer(model, None, args=args, peft_config=config)\ntrainer.train()\n"
BY_NAME = 'trainer = GRPOTrainer(model="a/b", args=args, peft_config=get_peft_config(ModelConfig()))\ntrainer.train()\n'
OLD_PEFT, OLD_TRL = {"peft": "0.11.1"}, {"trl": "0.12.1", "transformers": "4.46.0"}
BOTH_OLD = {**OLD_PEFT, **OLD_TRL}
UNFROZEN = "for name, p in model.named_parameters():\n    if {test}:\n        p.requires_grad = True\n"
LOADED = 'model = PeftModel.from_pretrained(model, "a")\n'
STAYS = {
    "adapters of a half model": (HALF + ADAPTERS + TRAINS, {}),
    "adapters of a half model, with a known version": (HALF + ADAPTERS + TRAINS, {"peft": "0.12.0"}),
    "adapters of an 8-bit model": (BITS + ADAPTERS + TRAINS, OLD_PEFT),
    "adapters of a 4-bit model": (NF4 + ADAPTERS + TRAINS, OLD_PEFT),
    "loaded adapters": (HALF + 'model = PeftModel.from_pretrained(model, "a", is_trainable=True)\n' + TRAINS, {}),
    "loaded or new adapters": (
        HALF + 'if args.resume:\n    model = PeftModel.from_pretrained(model, "a")\n'
        "else:\n    model = get_peft_model(model, LoraConfig())\n" + TRAINS,
        {},
    ),
    "loaded adapters that are unfrozen": (
        HALF + LOADED + UNFROZEN.format(test='"lora" in name or "Lora" in name') + TRAINS,
        {},
    ),
    "adapters of which some are unfrozen": (
        HALF + ADAPTERS + UNFROZEN.format(test='"adapter" in name and wanted(name)') + TRAINS,
        {},
    ),
    "inputs that get gradients": (
        HALF + "def hook(module, inputs, output):\n    output.requires_grad_(True)\n\n\n" + ADAPTERS + TRAINS,
        {},
    ),
    "attached to a 4-bit model": (NF4 + LORA + ATTACHES, BOTH_OLD),
    "attached to a 4-bit model, by position": (NF4 + LORA + ALIGNS, BOTH_OLD),
    "attached to a half model": (HALF + LORA + ATTACHES, {}),
    "attached to a float32 model": (FLOAT + LORA + ATTACHES, {"peft": "0.11.1"}),
    "an option for a float32 model": (FLOAT + "config = LoraConfig() if args.lora else None\n" + ATTACHES, {}),
    "loaded by name in float32": (BY_NAME, {}),
    "loaded by name by transformers 4": (BY_NAME, OLD_TRL),
    "a name that starts as None": ("model = None\n" + FLOAT + TRAINS, {}),
    "a part that is float32 again": (
        HALF + "if args.prefix:\n    model = model.half()\n    model.transformer.prefix_encoder.float()\n"
        "else:\n    model = model.float()\n" + TRAINS,
        {},
    ),
    "an adapter in another function": (
        "from net import Net\n\n\ndef merge(model):\n    return PeftModel.from_pretrained(model, 'a')\n\n\n"
        "def main():\n    model = Net.from_pretrained('a/b')\n"
        "    trainer = Trainer(model=model)\n    trainer.train()\n",
        {"transformers": "4.36.0"},
    ),
}
CAST = {
    "adapters of a half model, not cast by an older version": (HALF + ADAPTERS + TRAINS, OLD_PEFT),
    "adapters that PEFT does not cast because of an argument": (
        HALF + ADAPTERS.replace("r=8)", "r=8), autocast_adapter_dtype=False") + TRAINS,
        {},
    ),
    "a half model that has adapters only by an option": (HALF + f"if args.lora:\n    {ADAPTERS}" + TRAINS, {}),
    "a quantised model with a half storage": (
        NF4.replace("(load_in", "(bnb_4bit_quant_storage=torch.float16, load_in") + ADAPTERS + TRAINS,
        OLD_PEFT,
    ),
    "a model that is quantised by an option": (BITS.replace("True", "args.bits") + ADAPTERS + TRAINS, OLD_PEFT),
    "a head that is trained too": (
        HALF + ADAPTERS.replace("r=8", 'r=8, modules_to_save=["lm_head"]') + TRAINS,
        {},
    ),
    "a classifier that is trained too": (HALF + ADAPTERS.replace("r=8", 'task_type="SEQ_CLS"') + TRAINS, {}),
    "a part that is unfrozen": (
        HALF + ADAPTERS + "for p in model.norm.parameters():\n    p.requires_grad = True\n" + TRAINS,
        {},
    ),
    "adapters and another part that are unfrozen": (
        HALF + LOADED + UNFROZEN.format(test='"lora" in name or "embed" in name') + TRAINS,
        {},
    ),
    "everything but adapters that is unfrozen": (
        HALF + ADAPTERS + UNFROZEN.format(test='"lora" not in name') + TRAINS,
        {},
    ),
    "a part that is unfrozen beside adapters": (
        HALF + ADAPTERS + UNFROZEN.format(test='"lora" in name') + UNFROZEN.format(test='"norm" in name') + TRAINS,
        {},
    ),
    "half again": (HALF + ADAPTERS + "model.half()\n" + TRAINS, {}),
    "attached to a quantised model by a TRL that casts": (NF4 + LORA + ATTACHES, {}),
    "attached to a half model by an option": (
        HALF + "config = LoraConfig() if args.lora else None\n" + ATTACHES,
        {},
    ),
    "attached to a half model, not cast by an older version": (HALF + LORA + ATTACHES, BOTH_OLD),
    "loaded by name in the dtype of the checkpoint": (BY_NAME, {"trl": "0.26.0"}),
    "loaded by name with options": (BY_NAME.replace("args=args", "args=make(model_init_kwargs=options)"), {}),
    "only a norm that is float32 again": (
        HALF + "model = model.half()\nmodel.lm_head.float()\n" + TRAINS,
        {},
    ),
}


@pytest.mark.parametrize(("code", "packages"), STAYS.values(), ids=STAYS)
def test_weights_that_are_float32_already_get_no_cast(code: str, packages: dict[str, str]) -> None:
    assert casts(code, packages) == 0


@pytest.mark.parametrize(("code", "packages"), CAST.values(), ids=CAST)
def test_weights_that_may_be_half_are_cast(code: str, packages: dict[str, str]) -> None:
    assert casts(code, packages) == 1


@pytest.mark.parametrize(
    ("install", "expected"),
    [
        ('!pip install "peft==0.8.2"', 1),
        ('%pip install --upgrade \\\n  "transformers[torch]==4.37.2" \\\n  "peft==0.12.0"', 0),
        ('!pip install "peft==0.8.2"\n!pip install "peft==0.13.0"', 0),
        ('print("peft==0.8.2")', 0),
    ],
)
def test_the_versions_that_a_notebook_installs_are_used(install: str, expected: int) -> None:
    lines = (HEAD + HALF + ADAPTERS + TRAINS).splitlines(keepends=True)
    cells = [{"cell_type": "code", "source": install.splitlines(keepends=True)}, {"cell_type": "code", "source": lines}]
    data = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1).encode()
    assert added(plan_file("train.ipynb", data, [trainable_fp32], Target(TITAN_RTX))) == expected
    newest = Target(TITAN_RTX, {"peft": "0.17.0"}, on_host=True)
    assert added(plan_file("train.ipynb", data, [trainable_fp32], newest)) == 0


def casts(code: str, packages: dict[str, str]) -> int:
    return added(plan_file("train.py", (HEAD + code).encode(), [trainable_fp32], Target(TITAN_RTX, packages)))


def added(outcome) -> int:
    return outcome.change.after.count(b"parameter.data = ") if outcome.change else 0
