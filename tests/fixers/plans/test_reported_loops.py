"""Training loops of Lightning and Accelerate that no fixer can repair are reported."""

from tests.fixers.plans.project_plan import planned, warned

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
    assert "train.py:6 accelerate returns `optimizer` of build_optimizer() unprepared" in warned(
        planned(tmp_path / "a", files)
    )
    derived = GROUP.replace("MultiOptimizer:", "MultiOptimizer(torch.optim.Optimizer):")
    assert "unprepared" not in warned(planned(tmp_path / "b", files | {"optimizers.py": derived}))
    each = PREPARES.replace("accelerator.prepare(optimizer)", "accelerator.prepare(optimizer.optimizers)")
    assert "unprepared" not in warned(planned(tmp_path / "c", files | {"train.py": each}))


def test_a_munch_of_models_that_accelerate_does_not_prepare_is_reported(tmp_path):
    models = "from munch import Munch\n\n\ndef build_model(a, b):\n    nets = Munch(a=a, b=b)\n    return nets\n"
    train = PREPARES.replace("build_optimizer(groups)", "build_model(a, b)")
    found = warned(planned(tmp_path / "a", {"models.py": models, "train.py": train}))
    assert "train.py:6 accelerate returns `optimizer` of build_model() unprepared" in found
    module = models.replace("Munch(a=a, b=b)", "Nets(a, b)")
    assert "unprepared" not in warned(planned(tmp_path / "b", {"models.py": module, "train.py": train}))
