"""Programs that train weights in a dtype of an option, where mixed precision is another option."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned
from tests.fixers.plans.project_plan import warned

TRAINING = """import torch
from model import Speech
from settings import config
from transformers import Trainer, TrainingArguments

model = Speech.of(torch_dtype=config.data_type)
args = TrainingArguments("out", {precision})
trainer = Trainer(model=model, args=args)
trainer.train()
"""
MODEL = """import torch


class Speech(torch.nn.Linear):
    @classmethod
    def of(cls, torch_dtype):
        return cls(2, 2).to(getattr(torch, torch_dtype))
"""
SETTINGS = """from dataclasses import dataclass


@dataclass
class Config:
    data_type: str = "{dtype}"
    fp16: bool = False
    bf16: bool = False


config = Config()
"""
FILES = {"train.py": TRAINING.format(precision="fp16=config.fp16,\n    bf16=config.bf16"), "model.py": MODEL}


@pytest.mark.parametrize(
    "files",
    [
        {"settings.py": SETTINGS.format(dtype="bfloat16")},
        {"settings.py": SETTINGS.format(dtype="float32"), "conf/train.yaml": "data_type: bfloat16\nlearning_rate: 1\n"},
    ],
    ids=["a default", "a config"],
)
def test_a_program_whose_weights_may_become_float16_without_a_loss_scale_stays(
    tmp_path: Path, files: dict[str, str]
) -> None:
    named = {"README.md": "python train.py conf/train.yaml\n"}
    plan = planned(tmp_path, {**FILES, **files, **named})
    assert changed(plan) == {}
    assert "data_type sets the dtype of its weights, and mixed precision may be off" in warned(plan)


@pytest.mark.parametrize(
    "parts",
    [
        {"train.py": TRAINING.format(precision="bf16=True")},
        {"train.py": FILES["train.py"].replace("torch_dtype=config.data_type", "torch_dtype='float32'")},
    ],
    ids=["mixed precision is on", "the option is of no weights"],
)
def test_an_option_is_changed_where_no_weights_train_in_float16(tmp_path: Path, parts: dict[str, str]) -> None:
    plan = planned(tmp_path, {**FILES, "settings.py": SETTINGS.format(dtype="bfloat16"), **parts})
    assert "mixed precision may be off" not in warned(plan)
    assert 'data_type: str = "float16"' in changed(plan)["settings.py"]
