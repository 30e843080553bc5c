"""Training loops of Lightning and Accelerate that no fixer can repair are reported."""

from pathlib import Path

import pytest

from tests.fixers.plans.project_plan import changed, planned, warned

MANUAL = """import lightning as L
import torch


class Codec(L.LightningModule):
    def __init__(self):
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        self.manual_backward(self.loss(batch))
        self.clip_gradients(optimizer, gradient_clip_val=1.0)
        optimizer.step()
"""
GROUP = """class MultiOptimizer:
    def __init__(self, optimizers):
        self.optimizers = optimizers

    def step(self, key):
        self.optimizers[key].step()


def build_optimizer(groups):
    return MultiOptimizer(groups)
"""
PREPARES = """from accelerate import Accelerator
from optimizers import build_optimizer

accelerator = Accelerator()
optimizer = build_optimizer(groups)
optimizer = accelerator.prepare(optimizer)
accelerator.backward(loss)
"""


def test_manual_clipping_of_lightning_is_reported_in_mixed_precision(tmp_path):
    files = {"codec.py": MANUAL, "conf.yaml": "train:\n  precision: 16-mixed\n"}
    assert "codec.py:12 the gradients are clipped before they are unscaled" in warned(planned(tmp_path / "a", files))
    torch_clips = MANUAL.replace("self.clip_gradients(optimizer,", "torch.nn.utils.clip_grad_norm_(self.parameters(),")
    assert "codec.py:12 the gradients" in warned(planned(tmp_path / "b", files | {"codec.py": torch_clips}))
    by_lightning = MANUAL.replace("        self.automatic_optimization = False", "        pass")
    assert "clipped" not in warned(planned(tmp_path / "c", files | {"codec.py": by_lightning}))
    full = {"conf.yaml": "train:\n  precision: 32\n"}
    assert "clipped" not in warned(planned(tmp_path / "d", files | full))
    unscaled = MANUAL.replace("        self.clip", "        self.scaler.unscale_(optimizer)\n        self.clip")
    assert "clipped" not in warned(planned(tmp_path / "e", files | {"codec.py": unscaled}))


def test_a_group_of_optimizers_that_accelerate_does_not_prepare_is_reported(tmp_path):
    files = {"optimizers.py": GROUP, "train.py": PREPARES}
    found = warned(planned(tmp_path / "a", files))
    assert "train.py:6 accelerate does not prepare" in found
    assert "inside `optimizer` of build_optimizer()" in found
    derived = GROUP.replace("MultiOptimizer:", "MultiOptimizer(torch.optim.Optimizer):")
    assert "does not prepare" not in warned(planned(tmp_path / "b", files | {"optimizers.py": derived}))
    each = PREPARES.replace("accelerator.prepare(optimizer)", "accelerator.prepare(optimizer.optimizers)")
    assert "does not prepare" not in warned(planned(tmp_path / "c", files | {"train.py": each}))


def test_a_munch_of_models_that_accelerate_does_not_prepare_is_reported(tmp_path):
    models = "from munch import Munch\n\n\ndef build_model(a, b):\n    nets = Munch(a=a, b=b)\n    return nets\n"
    train = PREPARES.replace("build_optimizer(groups)", "build_model(a, b)")
    found = warned(planned(tmp_path / "a", {"models.py": models, "train.py": train}))
    assert "train.py:6 accelerate does not prepare" in found
    assert "inside `optimizer` of build_model()" in found
    module = models.replace("Munch(a=a, b=b)", "Nets(a, b)")
    assert "does not prepare" not in warned(planned(tmp_path / "b", {"models.py": module, "train.py": train}))


@pytest.mark.parametrize(
    "line",
    [
        "cfg = Munch(lr=1e-3)",
        "# self.optimizers are in optim.py",
        "if True:\n    def make():\n        return Munch(a=1)",
    ],
)
def test_a_file_without_definitions_may_name_a_munch_or_optimizers(tmp_path, line):
    text = f"import torch\nfrom munch import Munch\n\n{line}\nmodel = torch.nn.Linear(4, 4)\n"
    plan = planned(tmp_path, {"train.py": text})
    assert changed(plan) == {} and warned(plan) == ""


CLIPS = """import torch
from amp import make_scaler

scaler = make_scaler()


def learn(loss, optimizer, model):
    scaler.scale(loss).backward()
    scaler.{prepare}(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
"""
SCALER = """import torch


class Scaler(torch.amp.GradScaler):
    def {prepare}(self, optimizer):
        self.unscale_(optimizer)
"""
BY_ACCELERATE = """import torch
from accelerate import Accelerator

accelerator = Accelerator()
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    accelerator.backward(model(batch))
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
TYPE = "compute_environment: LOCAL_MACHINE\ndistributed_type: {type}\n"
START = "accelerate launch --config_file conf/one.yaml train.py\n"


@pytest.mark.parametrize("prepare", ["make_ready", "before_clipping"])
def test_gradients_that_a_function_of_the_project_unscales_are_not_reported(tmp_path: Path, prepare: str) -> None:
    files = {"train.py": CLIPS.format(prepare=prepare), "amp.py": SCALER.format(prepare=prepare)}
    assert "clipped before" not in warned(planned(tmp_path, files))
    other = {"amp.py": SCALER.format(prepare="something_else")}
    assert "clipped before" in warned(planned(tmp_path, {**files, **other}))


@pytest.mark.parametrize(("kind", "reported"), [("DEEPSPEED", False), ("MULTI_GPU", True), ("NO", True)])
def test_gradients_that_deepspeed_clips_are_not_reported(tmp_path: Path, kind: str, reported: bool) -> None:
    files = {"train.py": BY_ACCELERATE, "conf/one.yaml": TYPE.format(type=kind), "run.sh": START}
    assert ("clipped before" in warned(planned(tmp_path, files))) is reported


FSDP = TYPE.format(type="FSDP") + "mixed_precision: bf16\nfsdp_config:\n  fsdp_version: 1\n"


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        ("trainer = Trainer(model=model, args=args)\n", False),
        ("optimizer = torch.optim.AdamW(model.parameters())\n", False),
        ("from peft import get_peft_model\n\ntrainer = Trainer(model=get_peft_model(model, c), args=args)\n", True),
        ("encoder.requires_grad_(False)\ntrainer = Trainer(model=model, args=args)\n", True),
    ],
)
def test_fsdp_is_reported_only_if_parts_of_a_model_may_be_frozen(tmp_path: Path, code: str, reported: bool) -> None:
    text = warned(planned(tmp_path, {"train.py": code, "fsdp.yaml": FSDP}))
    assert ("FSDP 1 needs one dtype" in text) is reported
