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


LOOP = """import torch
from accelerate import Accelerator
from model import Speech

accelerator = Accelerator({options})
model = Speech.of(torch_dtype="bfloat16")
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    accelerator.backward(model(batch).mean())
    optimizer.step()
"""
OF_FSDP = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n{more}"
CONFIGURED = """import hydra
import torch
from accelerate import Accelerator
from model import Speech


@hydra.main(config_path="config", config_name="train")
def main(cfg):
    accelerator = Accelerator(project_dir=cfg.out)
    attention = "sdpa" if cfg.policy_dtype in ["float16", "bfloat16"] else "eager"
    model = Speech.of(torch_dtype=cfg.policy_dtype, attn_implementation=attention)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in accelerator.prepare(loader):
        accelerator.backward(model(batch).mean())
        optimizer.step()


main()
"""


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": LOOP.format(options="project_dir='out'"), "fsdp.yaml": OF_FSDP.format(more="")},
        {"train.py": LOOP.format(options=""), "README.md": "accelerate launch --mixed_precision no train.py\n"},
        {"train.py": CONFIGURED, "config/train.yaml": "policy_dtype: bfloat16\nlr: 1\n", "run.sh": "python train.py\n"},
    ],
    ids=["a config of Accelerate", "a command", "a config of the project"],
)
def test_a_program_whose_accelerator_gets_no_mixed_precision_stays(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"model.py": MODEL, **files})
    assert changed(plan) == {}
    assert "nothing selects mixed precision for its Accelerator (train.py:" in warned(plan)


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": LOOP.format(options="mixed_precision=args.precision")},
        {"train.py": LOOP.format(options="**options")},
        {"train.py": LOOP.format(options=""), "fsdp.yaml": OF_FSDP.format(more="mixed_precision: bf16\n")},
        {"train.py": LOOP.format(options=""), "run.sh": "accelerate launch --mixed_precision bf16 train.py\n"},
        {"train.py": LOOP.format(options=""), "README.md": "accelerate launch --mixed_precision=$MP train.py\n"},
        {"train.py": LOOP.format(options=""), "ds.json": '{"zero_optimization": {}, "bf16": {"enabled": true}}\n'},
        {"train.py": LOOP.format(options="") + "scaler = torch.amp.GradScaler()\n"},
    ],
    ids=["an option", "unpacked", "config", "command", "document", "DeepSpeed", "a scaler of its own"],
)
def test_a_program_whose_accelerator_may_get_mixed_precision_is_converted(
    tmp_path: Path, files: dict[str, str]
) -> None:
    assert '"float16"' in changed(planned(tmp_path, {"model.py": MODEL, **files}))["train.py"]


def test_attention_is_replaced_in_a_program_whose_accelerator_gets_no_mixed_precision(tmp_path: Path) -> None:
    load = 'Speech.of(attn_implementation="flash_attention_2")'
    code = LOOP.format(options="").replace('Speech.of(torch_dtype="bfloat16")', load)
    assert '"sdpa"' in changed(planned(tmp_path, {"model.py": MODEL, "train.py": code}))["train.py"]


STUDIO = """import torch
from model import Speech
from settings import Config

config = Config()
scaler = torch.amp.GradScaler(enabled=config.mixed_precision)
model = Speech.of(torch_dtype=config.backbone_dtype)
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with torch.autocast("cuda", enabled=config.mixed_precision, dtype=getattr(torch, config.autocast_dtype)):
        loss = model(batch).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
"""
OPTIONS = """

@dataclass
class {name}:
    mixed_precision: bool = {mixed}
    autocast_dtype: str = "bfloat16"
    backbone_dtype: str = "{dtype}"
"""
HEAD = "from dataclasses import dataclass\n"


@pytest.mark.parametrize(("mixed", "dtype"), [("False", "bfloat16"), ("True", "float32")])
def test_settings_without_mixed_precision_keep_the_dtype_of_the_weights(tmp_path: Path, mixed: str, dtype: str) -> None:
    settings = HEAD + OPTIONS.format(name="Config", mixed=mixed, dtype=dtype)
    plan = planned(tmp_path, {"train.py": STUDIO, "model.py": MODEL, "settings.py": settings})
    stays = mixed == "False"
    assert ("settings.py" in changed(plan)) is not stays
    assert ("backbone_dtype sets the dtype of its weights, and mixed precision may be off" in warned(plan)) is stays


def test_a_config_without_mixed_precision_keeps_the_dtype_of_the_weights(tmp_path: Path) -> None:
    settings = HEAD + OPTIONS.format(name="Config", mixed="True", dtype="float32")
    files = {"train.py": STUDIO, "model.py": MODEL, "settings.py": settings, "run.sh": "python train.py pure.yaml\n"}
    files["pure.yaml"] = "mixed_precision: false\nbackbone_dtype: bfloat16\n"
    assert changed(planned(tmp_path, files)) == {}


def test_a_variant_of_the_settings_without_mixed_precision_stays_beside_converted_ones(tmp_path: Path) -> None:
    variant = f"from settings import Config\n{HEAD}" + OPTIONS.format(
        name="Pure(Config)", mixed="False", dtype="bfloat16"
    )
    settings = HEAD + OPTIONS.format(name="Config", mixed="True", dtype="float32")
    training = STUDIO.replace("from settings", "from variant import Pure\nfrom settings")
    files = {"train.py": training, "model.py": MODEL, "settings.py": settings, "variant.py": variant}
    after = changed(planned(tmp_path, files))
    assert 'autocast_dtype: str = "float16"' in after["settings.py"]
    assert 'backbone_dtype: str = "bfloat16"' in after.get("variant.py", variant)
