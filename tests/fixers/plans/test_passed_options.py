"""The default of an option stays if every command and document that starts the training passes the option."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.sources.option_defaults import UNUSED_DEFAULT
from tests.fixers.plans.program_files import changed, planned

ARGPARSE = """import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
"""
FIELDS = """from dataclasses import dataclass, field

import torch
from transformers import HfArgumentParser


@dataclass
class Options:
    dtype: str = field(default="bfloat16")
    epochs: int = 1


(args,) = HfArgumentParser(Options).parse_args_into_dataclasses()
"""
LOOP = """scaler = torch.amp.GradScaler()
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with torch.autocast("cuda", dtype=getattr(torch, args.dtype)):
        loss = model(batch).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
RUN = "python train.py --dtype bfloat16 --epochs 3\n"
NONE = "python train.py --epochs 3\n"
CODE = {"argparse": ARGPARSE + LOOP, "a field": FIELDS + LOOP}
PASSED = {
    "one command": {"run.sh": RUN},
    "two commands": {"run.sh": RUN, "other.sh": RUN.replace("bfloat16", "float32")},
    "a command and a document": {"run.sh": RUN, "README.md": f"```\n{RUN}```\n"},
    "code that passes it too": {"run.sh": RUN, "run.py": 'run("train.py", dtype="float32")\n'},
}
RELIED = {
    "a command without it": {"run.sh": RUN, "other.sh": NONE},
    "a document without it": {"run.sh": RUN, "README.md": f"```\n{NONE}```\n"},
    "code without it": {"run.sh": RUN, "run.py": 'run("train.py")\n'},
    "no command": {},
}


@pytest.mark.parametrize("code", CODE.values(), ids=CODE)
@pytest.mark.parametrize("starts", PASSED.values(), ids=PASSED)
def test_a_default_stays_if_every_start_passes_the_option(tmp_path: Path, starts: dict[str, str], code: str) -> None:
    plan = planned(tmp_path, {"train.py": code, **starts})
    assert changed(plan)["run.sh"] == RUN.replace("bfloat16", "float16")
    assert 'default="float16"' not in changed(plan).get("train.py", "")
    assert [each.reason for each in plan.skipped if each.where.startswith("train.py:")] == [UNUSED_DEFAULT]


@pytest.mark.parametrize("code", CODE.values(), ids=CODE)
@pytest.mark.parametrize("starts", RELIED.values(), ids=RELIED)
def test_a_default_is_changed_if_a_start_omits_the_option(tmp_path: Path, starts: dict[str, str], code: str) -> None:
    assert 'default="float16"' in changed(planned(tmp_path, {"train.py": code, **starts}))["train.py"]


def test_a_field_of_this_name_that_commands_do_not_set_is_changed(tmp_path: Path) -> None:
    other = "import torch\n\n\nclass Layer:\n    dtype: torch.dtype = torch.bfloat16\n\n\nmake(dtype=Layer.dtype)\n"
    code = ARGPARSE.replace("import torch\n", "import torch\nimport layers\n") + LOOP
    after = changed(planned(tmp_path, {"train.py": code, "layers.py": other, "run.sh": RUN}))
    assert "float16" in after["layers.py"]
    assert 'default="float16"' in after["train.py"]
