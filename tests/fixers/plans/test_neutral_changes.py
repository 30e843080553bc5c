"""A program that is not proved keeps a shared module from changing only if the change would affect it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX

TRAIN = """import argparse

import torch
from accelerate import Accelerator
from common import {name}

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16")
args = parser.parse_args()
accelerator = Accelerator(mixed_precision="bf16")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    accelerator.backward(model({name}(batch, args.precision)).mean())
    optimizer.step()
"""
OTHER = """import torch
import common
from common import {name}

model = torch.nn.Linear(2, 2).bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in loader:
    model({use}).mean().backward()
    optimizer.step()
"""
TABLE = """import torch

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def to_dtype(batch, name):
    return batch.to(TYPES[name])
"""
BRANCHES = """import torch


def to_dtype(batch, precision):
    if precision == "bf16":
        dtype = torch.bfloat16
    elif precision == "fp32":
        dtype = torch.float32
    else:
        raise ValueError(precision)
    return batch.to(dtype)
"""
DEFAULT = """import torch


def to_dtype(batch, name="fp32", dtype=torch.bfloat16):
    return batch.to(dtype)
"""
UNUSED = """import torch


def to_dtype(batch, name):
    return _cast(batch)


def _cast(batch):
    return batch.to(torch.bfloat16)


def shuffled(batch):
    return batch[torch.randperm(len(batch))]
"""
NEUTRAL = {
    "a new row of a table": (TABLE, "to_dtype", 'to_dtype(batch, "bf16")'),
    "a new branch": (BRANCHES, "to_dtype", 'to_dtype(batch, "bf16")'),
    "a default that it overrides": (DEFAULT, "to_dtype", 'to_dtype(batch, "bf16", dtype=torch.bfloat16)'),
    "a default that it overrides by position": (DEFAULT, "to_dtype", 'to_dtype(batch, "bf16", torch.bfloat16)'),
    "a function that it does not use": (UNUSED, "shuffled", "shuffled(batch)"),
}
AFFECTED = {
    "a default that it uses": (DEFAULT, "to_dtype", 'to_dtype(batch, "bf16")'),
    "a function that it uses": (UNUSED, "to_dtype", 'to_dtype(batch, "bf16")'),
    "a function that it uses through the module": (UNUSED, "shuffled", 'common.to_dtype(batch, "bf16")'),
    "a constant": (f"{UNUSED}\n\nDTYPE = torch.bfloat16\n", "shuffled", "shuffled(batch)"),
}


def planned(root: Path, common: str, name: str, use: str) -> Plan:
    files = {
        "common.py": common,
        "train.py": TRAIN.format(name="to_dtype"),
        "other.py": OTHER.format(name=name, use=use),
    }
    for path, text in files.items():
        (root / path).write_text(text)
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))


def paths_of(plan: Plan) -> set[str]:
    return {each.path for each in plan.changes if isinstance(each, FileChange)}


@pytest.mark.parametrize(("common", "name", "use"), NEUTRAL.values(), ids=NEUTRAL)
def test_a_change_that_leaves_the_other_program_as_it_was_is_made(
    tmp_path: Path, common: str, name: str, use: str
) -> None:
    plan = planned(tmp_path, common, name, use)
    assert paths_of(plan) == {"train.py", "common.py"}
    assert [each.where for each in plan.findings if "stays in bfloat16" in each.message] == ["other.py"]
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()


@pytest.mark.parametrize(("common", "name", "use"), AFFECTED.values(), ids=AFFECTED)
def test_a_change_that_affects_the_other_program_is_withheld_with_both(
    tmp_path: Path, common: str, name: str, use: str
) -> None:
    assert paths_of(planned(tmp_path, common, name, use)) == set()


OF_OTHER = """import torch


def to_dtype(batch, precision):
    return batch.float() if precision == "fp32" else batch


def narrow(batch, dtype=torch.bfloat16):
    return batch.to(dtype)
"""


@pytest.mark.parametrize("use", ["narrow(batch)", "common.narrow(batch[0])"])
def test_a_program_that_needs_no_part_of_a_withheld_change_is_converted_without_it(tmp_path: Path, use: str) -> None:
    plan = planned(tmp_path, OF_OTHER, "narrow", use)
    assert paths_of(plan) == {"train.py"}
    assert [each.where for each in plan.findings if "stays in bfloat16" in each.message] == ["other.py"]
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()
