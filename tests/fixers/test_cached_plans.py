"""Cached plans of all fixers are used only for unchanged files and the same target."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.sources.readers.find import may_contain_readers
from tests.fixers.all_cases import plan_all
from tests.fixers.casebook import AMPERE, TITAN_RTX
from tests.fixers.offers import plan_offers


def test_cached_findings_are_used_without_reading_and_dropped_after_a_change(project: Path) -> None:
    first = plan_all(project)
    tree = _KnowingTree(project)
    assert plan_offers(Site(tree, gpu=TITAN_RTX)) == first
    pins = {path for path in tree.read_paths if path.endswith(("setup.cfg", "pyproject.toml"))}
    changed = {change.path for change in first.changes}
    refused = {finding.where.partition(":")[0] for finding in first.findings if "accepts only" in finding.message}
    assert changed <= set(tree.read_paths) | pins
    withdrawn = set(tree.read_paths) - changed - pins
    assert all(path in refused or may_contain_readers((project / path).read_bytes()) for path in withdrawn)
    victim = first.changes[0].path
    (project / victim).write_bytes(b"import torch\ny = torch.bfloat16\n")
    again = plan_offers(Site(DiskTree(project), gpu=TITAN_RTX))
    assert next(c for c in again.changes if c.path == victim).after == b"import torch\ny = torch.float16\n"


def test_a_cached_outcome_of_a_file_that_changed_while_planning_is_not_used(small_project: Path) -> None:
    tree = _KnowingTree(small_project)
    victim = plan_all(small_project).changes[0].path
    (small_project / victim).write_bytes(b"import torch\ny = torch.bfloat16\n")
    changes = {change.path: change for change in plan_offers(Site(tree, gpu=TITAN_RTX)).changes}
    assert changes[victim].before == b"import torch\ny = torch.bfloat16\n"
    assert changes[victim].after == b"import torch\ny = torch.float16\n"


def test_caches_of_other_targets_are_kept_up_to_a_limit(small_project: Path) -> None:
    for name in ("bf16-to-fp16", "local-rank", "loss-fp32", "device-map", "scaler-gate") * 2:
        plan_offers(Site(DiskTree(small_project), gpu=TITAN_RTX), only=[name])
        plan_offers(Site(DiskTree(small_project), gpu=AMPERE), only=[name])
    assert len(list((small_project / ".halfstep/planned").iterdir())) == 8


def test_an_unusable_cache_is_ignored(small_project: Path) -> None:
    first = plan_all(small_project)
    for answer in (small_project / ".halfstep/planned").iterdir():
        answer.write_bytes(b'{"a.py": 1')
    assert plan_all(small_project) == first
    for answer in (small_project / ".halfstep/planned").iterdir():
        answer.write_bytes(answer.read_bytes().replace(b'"middle"', b'"muddle"').replace(b'"head":', b'"head":"x'))
    assert plan_all(small_project) == first


class _KnowingTree(DiskTree):
    """A tree that has every digest in advance, as after a scan, and counts the files that are read anyway."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        plain = DiskTree(root)
        self._digests = {path: plain.digest(path) for path in plain.paths()}
        self.read_paths: list[str] = []

    def digest(self, path: str) -> str:
        return self._digests[path]

    def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        return super().read(path)
