"""FlashAttention is turned off only in programs that run without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers
from tests.fixers.schemas.attention import REPLACED, STAYS, TRANSFORMERS


def run(folder: Path, stub: Path) -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(stub), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [sys.executable, "train.py"]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("name", [*STAYS, *REPLACED])
def test_flash_attention_is_turned_off_only_where_the_program_runs_without_it(tmp_path: Path, name: str) -> None:
    folder, stub = tmp_path / "project", tmp_path / "stub"
    for path, text in ((STAYS | REPLACED)[name] | {"../stub/transformers.py": TRANSFORMERS}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    assert run(folder, stub) == "done"
    plan = plan_offers(Site(DiskTree(folder), gpu=TITAN_RTX))
    assert bool(plan.changes) == (name in REPLACED)
    warned = [each.message for each in plan.findings if "FlashAttention is not replaced" in each.message]
    assert bool(warned) == (name in STAYS)
    for change in plan.changes:
        assert isinstance(change, FileChange)
        (folder / change.path).write_bytes(change.after)
    assert run(folder, stub) == "done"
