"""A real training of an adapter: replacing the word bfloat16 causes the scaler error; after the fixers it trains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX

SCRIPT = '''\
import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
amp_dtype = torch.bfloat16


class Adapted(nn.Module):
    """A frozen layer and a low-rank update of it."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16)
        self.down = nn.Linear(16, 4, bias=False)
        self.up = nn.Linear(4, 16, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


model = Adapted().to(device).to(torch.bfloat16)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
scaler = torch.amp.GradScaler(device)
x = torch.randn(32, 16, device=device)
y = torch.randn(32, 16, device=device)
losses = []
for step in range(40):
    with torch.autocast(device, dtype=amp_dtype):
        prediction = model(x)
    loss = nn.functional.huber_loss(prediction, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(loss.item())
print(losses[0], losses[-1], {p.dtype for p in model.parameters() if p.requires_grad}, model.base.weight.dtype)
assert losses[-1] < 0.8 * losses[0]
'''


def _run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    argv = [sys.executable, "train.py"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.train
def test_a_plain_text_replacement_fails_and_the_planned_fix_trains(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCRIPT.replace("bfloat16", "float16"))
    flipped = _run(tmp_path)
    assert flipped.returncode != 0
    assert "expected Half" in flipped.stderr or "Attempting to unscale FP16 gradients" in flipped.stderr
    train.write_text(SCRIPT.replace("bfloat16", "float16").replace("(prediction, y)", "(prediction.float(), y)"))
    assert "Attempting to unscale FP16 gradients" in _run(tmp_path).stderr

    train.write_text(SCRIPT)
    plan = plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert set(plan.changes[0].fixers) == {"bf16-to-fp16", "scaler-gate", "loss-fp32", "trainable-fp32"}
    apply_to_disk(tmp_path, plan)
    fixed = _run(tmp_path)
    assert fixed.returncode == 0, fixed.stderr
    assert "{torch.float32} torch.float16" in fixed.stdout


SCHEDULED = """\
import torch

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(16, 1).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
x = torch.randn(32, 16, device=device)
rounds = 24
for _ in range(rounds):
    with torch.autocast(device, dtype=torch.float16):
        loss = (8.0 * model(x)).sum()
    loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
print(rounds, int(optimizer.state[model.weight]["step"]), scheduler.last_epoch)
"""
GUARD = "if scaler.get_scale() >= scale_before:"


@pytest.mark.train
@pytest.mark.parametrize("shared_line", [False, True])
def test_the_schedule_of_a_loop_that_gets_a_scaler_counts_the_applied_steps(shared_line: bool, tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCHEDULED.replace("step()\n    scheduler", "step(); scheduler") if shared_line else SCHEDULED)
    apply_to_disk(tmp_path, plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)))
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()
    ran = _run(tmp_path)
    assert ran.returncode == 0, ran.stderr
    rounds, applied, scheduled = map(int, ran.stdout.split())
    assert 0 < scheduled == applied < rounds
    assert "Detected call of `lr_scheduler.step()` before" not in ran.stderr


@pytest.mark.train
def test_without_the_condition_the_schedule_of_that_loop_counts_skipped_steps(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(SCHEDULED)
    apply_to_disk(tmp_path, plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)))
    assert train.read_text().count(GUARD) == 1
    train.write_text(train.read_text().replace(GUARD, "if True:"))
    ran = _run(tmp_path)
    rounds, applied, scheduled = map(int, ran.stdout.split())
    assert 0 < applied < scheduled == rounds
    assert "Detected call of `lr_scheduler.step()` before" in ran.stderr


LIGHTNING = '''\
import lightning as L
import torch
from torch import nn


class Module(L.LightningModule):
    """A frozen layer in half precision, and a trained one."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(8, 8).to(torch.bfloat16).requires_grad_(False)
        self.head = nn.Linear(8, 1).to(torch.bfloat16)

    def training_step(self, batch, index):
        with torch.autocast("cpu", enabled=False):
            return self.head(self.base(batch.to(self.base.weight.dtype)).to(self.head.weight.dtype)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


module = Module()
trainer = L.Trainer(
    precision="bf16-true", max_steps=4, logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(module, torch.utils.data.DataLoader(torch.randn(16, 8), batch_size=4))
print(trainer.precision, {p.dtype for p in module.parameters() if p.requires_grad}, module.base.weight.dtype)
'''


@pytest.mark.train
def test_lightning_with_half_weights_trains_in_mixed_precision_instead(tmp_path: Path) -> None:
    train = tmp_path / "train.py"
    train.write_text(LIGHTNING)
    before = _run(tmp_path)
    assert "bf16-true {torch.bfloat16} torch.bfloat16" in before.stdout, before.stderr
    plan = plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert not [finding for finding in plan.findings if finding.severity == "error"]
    apply_to_disk(tmp_path, plan)
    assert 'precision="16-mixed"' in train.read_text()
    after = _run(tmp_path)
    assert "{torch.float32} torch.float16" in after.stdout, after.stderr
