"""`fused` is turned off where Lightning clips gradients in float16, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

FABRIC = """import torch
from lightning import Fabric

fabric = Fabric(precision={word!r})
model = fabric.setup(Net())
options = {{"fused": {fused}, "lr": 1e-4}}
optimizer = fabric.setup_optimizers(make(model.parameters(), **options))
fabric.backward(model(x).sum())
{clips}
optimizer.step()
"""
CLIPS = "fabric.clip_gradients(model, optimizer, max_norm=1.0)"
MODULE = """import lightning as L
import torch


class Speech(L.LightningModule):
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)
"""


def after(root: Path, files: dict[str, str], path: str) -> str:
    for name, text in files.items():
        (root / name).write_text(text, "utf-8")
    plan = plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))
    changes = {change.path: change.after.decode() for change in plan.changes if isinstance(change, FileChange)}
    return changes.get(path, files[path])


@pytest.mark.parametrize(
    ("word", "fused", "clips", "wanted"),
    [
        ("bf16-mixed", "fabric.device.type == 'cuda'", CLIPS, "False"),
        ("bf16-true", "True", CLIPS, "False"),
        ("bf16-mixed", "True", "# not clipped", "True"),
        ("32-true", "True", CLIPS, "True"),
    ],
)
def test_fabric_clips_no_fused_optimizer_in_float16(
    tmp_path: Path, word: str, fused: str, clips: str, wanted: str
) -> None:
    text = after(tmp_path, {"train.py": FABRIC.format(word=word, fused=fused, clips=clips)}, "train.py")
    assert f'"fused": {wanted},' in text
    assert after(tmp_path, {"train.py": text}, "train.py") == text


@pytest.mark.parametrize(("limit", "off"), [("1.0", True), ("null", False), ("0.0", False)])
def test_a_trainer_that_clips_gets_no_fused_optimizer(tmp_path: Path, limit: str, off: bool) -> None:
    config = f"trainer:\n  precision: bf16-mixed\n  gradient_clip_val: {limit}\n"
    text = after(tmp_path, {"module.py": MODULE, "train.yaml": config}, "module.py")
    assert ("fused=False" in text) is off
