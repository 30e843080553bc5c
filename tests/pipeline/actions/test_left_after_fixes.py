"""Findings after the fixers are computed once for the same files, and again after any change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from pipeline.actions.findings_after_fixes import findings_after_fixes
from pipeline.judgements.half_weights import judge_after_fixes
from remote.protocol.exits import ExitCode
from remote.protocol.machine import Gpu
from tests.fixers.casebook import AMPERE, TITAN_RTX

LOOP = """import torch

model = torch.nn.Linear(1, 1).half()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for batch in data:
    model(batch).backward()
    optimizer.step()
"""


def left(root: Path, plan: Plan | None = None, **site: object) -> list[str]:
    given = Site(DiskTree(root), **{"gpu": TITAN_RTX, **site})  # type: ignore[arg-type]
    found = findings_after_fixes(given, plan or Plan())
    assert found == judge_after_fixes(given, plan or Plan())
    return [each.where for each in found]


def test_the_same_files_are_judged_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    assert left(tmp_path) == left(tmp_path) == ["train.py:4"]
    (stored,) = (tmp_path / ".halfstep/planned").glob("left-*.json")
    before = stored.stat().st_mtime_ns
    os.utime(stored, ns=(before, before - 10**9))
    assert left(tmp_path) == ["train.py:4"]
    assert stored.stat().st_mtime_ns == before - 10**9


def test_a_changed_file_plan_card_or_precision_is_judged_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    assert left(tmp_path) == ["train.py:4"]
    full = LOOP.replace(".half()", "").encode()
    assert left(tmp_path, Plan((), (FileChange("train.py", LOOP.encode(), full, {}, ()),))) == []
    assert left(tmp_path, gpu=AMPERE) == []
    assert left(tmp_path, config={"precision": "fp32"}) == []
    (tmp_path / "train.py").write_bytes(full)
    assert left(tmp_path) == []


def test_a_broken_cache_is_judged_again(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    assert left(tmp_path) == ["train.py:4"]
    (stored,) = (tmp_path / ".halfstep/planned").glob("left-*.json")
    stored.write_text("{")
    assert left(tmp_path) == ["train.py:4"]


@pytest.mark.parametrize(
    ("card", "precision", "refused"),
    [
        (TITAN_RTX, "bf16", [ExitCode.PRECISION]),
        (TITAN_RTX, "auto", []),
        (TITAN_RTX, "fp16-mixed", []),
        (AMPERE, "bf16", []),
        (None, "bf16", []),
    ],
)
def test_a_precision_that_the_card_does_not_support_is_an_error(
    tmp_path: Path, card: Gpu | None, precision: str, refused: list[ExitCode]
) -> None:
    site = Site(DiskTree(tmp_path), gpu=card, config={"precision": precision})
    assert [one.exit_code for one in findings_after_fixes(site, Plan())] == refused
