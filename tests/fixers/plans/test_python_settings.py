"""Python files of settings belong to the programs that get their paths from commands and documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.plans.python_settings import is_base_of, only_assigns
from tests.fixers.plans.program_files import changed, planned

SETTINGS = """import os

model = dict(name=os.environ.get("MODEL", "base"), torch_dtype="bfloat16")
optimizer = dict(lr=1e-4)
del os
"""
TRAIN = """import sys
import torch
from accelerate import Accelerator
from mmengine.config import Config

config = Config.fromfile(sys.argv[1])
accelerator = Accelerator(mixed_precision="bf16")
model = build(config.model)
optimizer = torch.optim.AdamW([p.float() for p in model.parameters()])
for batch in loader:
    accelerator.backward(model(batch).mean())
    optimizer.step()
"""
START = "accelerate launch train.py settings/speech.py --seed 1\n"
SPLIT = "accelerate launch --num_processes 2 \\\n    train.py \\\n    settings/speech.py\n"
GIVEN = {
    "a command": {"run.sh": START},
    "a command on several lines": {"run.sh": SPLIT},
    "a variable of a command": {"run.sh": "config=settings/speech.py\naccelerate launch train.py $config\n"},
    "a document": {"README.md": f"Train with\n\n```\n{START}```\n"},
    "a document on several lines": {"README.md": f"Train with\n\n```\n{SPLIT}```\n"},
    "settings that inherit it": {
        "run.sh": "python train.py settings/large.py\n",
        "settings/large.py": "_base_ = ['./speech.py', 'data.py']\n\noptimizer = dict(lr=1e-5)\n",
    },
    "settings that inherit it, and that it inherits": {
        "run.sh": "python train.py top.py\n",
        "top.py": "_base_ = 'settings/speech.py'\nsteps = 10\n",
        "settings/speech.py": f"_base_ = ['../top.py']\n{SETTINGS}",
    },
}
NOT_GIVEN = {
    "nothing": {"run.sh": "python train.py other.py\n"},
    "a command of another script": {"run.sh": "python show.py settings/speech.py\n", "show.py": "print(1)\n"},
    "a line of a document without the script": {"README.md": "`python train.py`\n\nSee settings/speech.py.\n"},
    "a file of the same name": {"run.sh": "python train.py demo/speech.py\n", "demo/speech.py": "steps = 10\n"},
    "settings that nothing reads": {"settings/large.py": "_base_ = ['./speech.py']\n"},
    "settings that inherit another file": {
        "run.sh": "python train.py settings/large.py\n",
        "settings/large.py": "_base_ = ['../speech.py']\nname = 'speech.py'\n",
    },
}


@pytest.mark.parametrize("files", GIVEN.values(), ids=GIVEN)
def test_settings_that_a_training_gets_are_converted(tmp_path: Path, files: dict[str, str]) -> None:
    after = changed(planned(tmp_path, {"train.py": TRAIN, "settings/speech.py": SETTINGS, **files}))
    assert 'mixed_precision="fp16"' in after["train.py"]
    assert 'torch_dtype="float16"' in after["settings/speech.py"]


@pytest.mark.parametrize("files", NOT_GIVEN.values(), ids=NOT_GIVEN)
def test_settings_that_no_training_gets_stay(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"train.py": TRAIN, "settings/speech.py": SETTINGS, **files})
    assert "settings/speech.py" not in changed(plan)
    assert "settings/speech.py" in [each.where for each in plan.skipped]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("steps = 1\n", True),
        ('"""Settings."""\nfrom data import *\nsteps: int = 1\nsteps += 1\n', True),
        ("import os\n", False),
        ("def build():\n    return 1\n\nsteps = 1\n", False),
        ("steps = 1\nprint(steps)\n", False),
        ("steps = = 1\n", False),
    ],
)
def test_settings_only_assign(code: str, expected: bool) -> None:
    assert only_assigns(code.encode()) is expected


def test_a_base_is_named_from_the_folder_of_the_settings() -> None:
    text = b"other = ['base/b.py']\n_base_ = ['../base/a.py', *more]\n"
    assert is_base_of("conf/base/a.py", "conf/big/x.py", text)
    assert not is_base_of("base/a.py", "conf/big/x.py", text)
    assert not is_base_of("conf/big/base/b.py", "conf/big/x.py", text)
    assert not is_base_of("conf/base/a.py", "conf/big/x.py", b"_base_ = [\n")
