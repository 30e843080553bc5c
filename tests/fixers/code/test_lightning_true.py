"""Lightning's bf16-true becomes 16-true where nothing trains, and stays where frozen weights would double."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from remote.protocol.findings import Severity
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

MADE = "import lightning as L\n\ntrainer = L.Trainer(precision='bf16-true')\n{use}\n"
RETURNED = """from pytorch_lightning import Trainer


def evaluator():
    return Trainer(precision='bf16-true', devices=1)


def main():
    trainer = {first}
    trainer.fit(module)
    trainer = evaluator()
    trainer.{method}(module)
"""
MODEL = """import torch
from transformers import LlamaForCausalLM


class Speech(torch.nn.Module):
    def __init__(self, name):
        self.llm = LlamaForCausalLM.from_pretrained(name{dtype})
        self.llm.requires_grad_({trained})
"""
CREATED = """import lightning as L
import adapters

trainer = L.Trainer(precision='bf16-true')
with trainer.init_module():
    model = Speech()
{freezes}
trainer.fit(model)
"""


def planned(root: Path, files: dict[str, str]) -> tuple[str, Plan]:
    for name, text in files.items():
        (root / name).write_text(text, "utf-8")
    plan = plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))
    changes = {change.path: change.after.decode() for change in plan.changes if isinstance(change, FileChange)}
    return changes.get("run.py", files["run.py"]), plan


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (MADE.format(use="trainer.test(module)"), "16-true"),
        (MADE.format(use="trainer.validate(module)\ntrainer.print(trainer.callback_metrics)"), "16-true"),
        ("import lightning as L\n\nL.Trainer(precision='bf16-true').predict(module)\n", "16-true"),
        (RETURNED.format(first="Trainer()", method="test"), "16-true"),
        (RETURNED.format(first="evaluator()", method="test"), "16-mixed"),
        (MADE.format(use="trainer.validate(module)\ntrainer.fit(module)"), "16-mixed"),
        (MADE.format(use="trainer.test(module)\nrun(trainer)"), "16-mixed"),
        (MADE.format(use="print(1)"), "16-mixed"),
    ],
)
def test_a_trainer_that_only_evaluates_holds_half_weights(tmp_path: Path, code: str, word: str) -> None:
    text, _ = planned(tmp_path, {"run.py": code})
    assert text == code.replace("bf16-true", word)


@pytest.mark.parametrize(
    ("dtype", "trained", "word"),
    [
        ("", "False", "bf16-true"),
        (", torch_dtype=torch.float16", "False", "16-mixed"),
        ("", "True", "16-mixed"),
    ],
)
def test_a_trainer_of_frozen_weights_of_another_file_stays(tmp_path: Path, dtype: str, trained: str, word: str) -> None:
    code = MADE.format(use="trainer.fit(module)")
    text, plan = planned(tmp_path, {"run.py": code, "speech.py": MODEL.format(dtype=dtype, trained=trained)})
    assert text == code.replace("bf16-true", word)
    errors = [each for each in plan.findings if each.severity is Severity.ERROR]
    assert [each.where for each in errors] == (["run.py:3"] if word == "bf16-true" else [])
    assert all("speech.py:7 stores the frozen weights in float32" in each.message for each in errors)


@pytest.mark.parametrize(
    ("freezes", "word"), [("adapters.mark_only_lora_as_trainable(model)", "bf16-true"), ("model.train()", "16-mixed")]
)
def test_a_model_that_lightning_creates_frozen_stays(tmp_path: Path, freezes: str, word: str) -> None:
    code = CREATED.format(freezes=freezes)
    text, plan = planned(tmp_path, {"run.py": code})
    assert f"precision='{word}'" in text
    assert sum("needs twice the memory" in each.message for each in plan.findings) == 1
