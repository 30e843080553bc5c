"""Models that a trainer of the project gives to DeepSpeed's engine are not cast: the engine keeps float32 copies.

A program whose optimizer updates weights in the backward pass keeps bfloat16: the engine does not scale its loss.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned

SCRIPT = """import torch
from speech.trainer import Trainer
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("base", torch_dtype=torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
trainer = Trainer(model=model, optimizer=optimizer, config={"fp16": {"enabled": True}})
trainer.train()
"""
ENGINE = """import deepspeed


def make_engine(model, optimizer, config):
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine
"""
TRAINER = """from speech.engine import make_engine


class Trainer:
    def __init__(self, model, optimizer, config):
        self.engine = make_engine(model, optimizer, config)

    def train(self):
        for batch in self.data:
            self.engine.backward(self.engine(batch))
            self.engine.step()
"""
OWN_COPY = """from deepspeed.runtime.engine import DeepSpeedEngine


def start(model, optimizer, config):
    return DeepSpeedEngine(model=model, optimizer=optimizer, config=config)


def make_engine(model, optimizer, config):
    return start(model, optimizer, config)
"""
LOOP = """from torch.cuda.amp import GradScaler
import deepspeed


class Trainer:
    def __init__(self, model, optimizer, config):
        self.scaler = GradScaler()
        if config.deepspeed:
            model, optimizer, *_ = deepspeed.initialize(model=model, optimizer=optimizer)
        self.model, self.optimizer = model, optimizer

    def train(self):
        self.scaler.scale(self.model(batch)).backward()
"""
FILES = {"train.py": SCRIPT, "speech/__init__.py": "", "speech/trainer.py": TRAINER, "speech/engine.py": ENGINE}


@pytest.mark.parametrize("engine", [ENGINE, OWN_COPY], ids=["initialize", "an engine of its own"])
def test_a_model_that_deepspeed_gets_from_a_trainer_of_the_project_is_not_cast(tmp_path: Path, engine: str) -> None:
    after = changed(planned(tmp_path, {**FILES, "speech/engine.py": engine}))["train.py"]
    assert "torch_dtype=torch.float16" in after and "parameter.data" not in after


@pytest.mark.parametrize(
    "files",
    [
        {"speech/trainer.py": LOOP},
        {"train.py": SCRIPT.replace("optimizer=optimizer, config", "config")},
        {"train.py": SCRIPT.replace("speech.trainer", "speech.loop"), "speech/loop.py": LOOP},
    ],
    ids=["only by an option", "without the optimizer", "another trainer of this name"],
)
def test_a_model_that_may_train_without_the_engine_is_cast(tmp_path: Path, files: dict[str, str]) -> None:
    assert "parameter.data = " in changed(planned(tmp_path, {**FILES, **files}))["train.py"]


FUSED = """from torch.optim import Optimizer


class Lomo(Optimizer):
    def fused_backward(self, loss, lr):
        loss.backward()
"""
CREATES = "optimizer = {}(model, lr=2e-5)"


@pytest.mark.parametrize(
    ("optimizer", "stays"),
    [("Lomo", True), ("AdaLomo", True), ("lomo.Lomo", True), ("AdamW", False), ("#", False)],
)
def test_a_program_with_an_optimizer_that_fuses_the_backward_pass_stays(
    tmp_path: Path, optimizer: str, stays: bool
) -> None:
    created = CREATES.format(optimizer) if "#" not in optimizer else f"# Lomo(model)\n{CREATES.format('AdamW')}"
    script = SCRIPT.replace("optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)", created)
    files = {**FILES, "train.py": f"from speech.lomo import *\n{script}", "speech/lomo.py": FUSED}
    plan = planned(tmp_path, files)
    assert ("train.py" in changed(plan)) is not stays
    assert stays is any("in the backward pass, unscaled" in each.message for each in plan.findings)
