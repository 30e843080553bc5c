"""SE: a file of any size is not read into memory: an archive of a few kilobytes may contain a sparse one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fixers.frame.disk_tree import LARGEST_SOURCE_BYTES, DiskTree
from fixers.frame.site import Site
from pipeline.judgements.half_weights import judge_after_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

HUGE = 2**40


def sparse(path: Path, size: int = HUGE) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_SE_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    sparse(tmp_path / "a.py", LARGEST_SOURCE_BYTES)
    sparse(tmp_path / "b.py", LARGEST_SOURCE_BYTES + 1)
    tree = DiskTree(tmp_path)
    assert len(tree.read("a.py")) == LARGEST_SOURCE_BYTES
    with pytest.raises(OSError, match="too large") as caught:
        tree.read("b.py")
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    "name", ["big.py", "big.yaml", "big.ipynb", "big.json", "README.md", "run.sh", "pyproject.toml"]
)
def test_SE_fix_reports_a_source_file_of_any_size_and_leaves_out_data(tmp_path: Path, name: str) -> None:
    sparse(tmp_path / name)
    (tmp_path / "train.py").write_text("import torch\ndtype = torch.bfloat16\n")
    site = Site(DiskTree(tmp_path), gpu=TITAN_RTX)
    plan = plan_offers(site)
    judge_after_fixes(site, plan)
    assert [change.path for change in plan.changes] == ["train.py"]
    found = [(each.check, each.where, each.message) for each in plan.findings if each.where.startswith(name)]
    message = f"{HUGE} bytes: too large to be a source file; left unchanged"
    assert found in ([], [("unparsable-source", f"{name}:1", message)])
    assert bool(found) or name not in ("big.py", "big.yaml", "big.ipynb")
