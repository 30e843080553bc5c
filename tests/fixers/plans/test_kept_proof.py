"""The proved plan of a project is kept, but only until a file changes that the proof reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixers.frame.change import Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.kept_proof import PROOF, proved_once
from fixers.plans.plan_cache import PlanCache, cache_key
from fixers.plans.site_plan import plan_fixes, plan_offers
from tests.fixers.casebook import TITAN_RTX

TRAINS = """from model import NAME
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

arguments = TrainingArguments(output_dir=NAME, bf16=True)
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, arguments).train()
"""
FILES = {
    "train.py": TRAINS,
    "model.py": 'NAME = "out"\n',
    "unused.py": "def scale(value):\n    return value * 2\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).write_text(text, "utf-8")
    return tmp_path


def _plan(root: Path) -> Plan:
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))


def _proof_reads(root: Path, *paths: str, card=TITAN_RTX, **options) -> list[bytes]:
    """Return the content of these files if the project is proved, or [] if the plan of an earlier proof is used."""
    read: list[bytes] = []

    def prove(site: Site) -> Plan:
        read.extend(site.tree.read(path) for path in paths)
        return Plan()

    site = Site(DiskTree(root), gpu=card, **options)
    proved_once(site, plan_offers(site, ["bf16-to-fp16"]), prove)
    return read


def test_the_plan_of_a_kept_proof_equals_the_first(root: Path) -> None:
    first = _plan(root)
    assert first.changes
    assert _plan(root) == first
    (root / "train.py").write_text(TRAINS.replace("bf16=True", "bf16=False"), "utf-8")
    assert not _plan(root).changes


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("train.py", "import torch\nx = torch.bfloat16\n"),
        ("unused.py", "from model import NAME\n"),
        ("new.py", "import train\n"),
        ("README.md", "python train.py --bf16\n"),
        ("data.bin", "a file that only changes the list of paths\n"),
    ],
)
def test_a_project_is_proved_again_after_a_change(root: Path, path: str, text: str) -> None:
    assert _proof_reads(root, "model.py")
    assert not _proof_reads(root, "model.py")
    (root / path).write_text(text, "utf-8")
    assert _proof_reads(root, "model.py")
    assert not _proof_reads(root, "model.py")


def test_a_project_is_proved_again_without_a_file_for_another_card_and_with_a_config(root: Path) -> None:
    assert _proof_reads(root, "model.py")
    (root / "unused.py").unlink()
    assert _proof_reads(root, "model.py")
    assert _proof_reads(root, "model.py", card=replace(TITAN_RTX, memory_bytes=2**30))
    assert _proof_reads(root, "model.py", config={"command": "python train.py"})


def test_a_file_that_only_the_proof_reads_is_compared_too(root: Path) -> None:
    (root / "notes.bin").write_text("one", "utf-8")
    assert _proof_reads(root, "notes.bin") == [b"one"]
    assert _proof_reads(root, "notes.bin") == []
    (root / "notes.bin").write_text("two", "utf-8")
    assert _proof_reads(root, "notes.bin") == [b"two"]


def test_the_proof_of_files_that_change_meanwhile_is_not_kept(root: Path) -> None:
    site = Site(DiskTree(root), gpu=TITAN_RTX)
    offer = plan_offers(site, ["bf16-to-fp16"])
    (root / "unused.py").write_text("edited = True\n", "utf-8")
    proved: list[bytes] = []

    def prove(site: Site) -> Plan:
        proved.append(site.tree.read("unused.py"))
        return Plan()

    proved_once(site, offer, prove)
    proved_once(site, offer, prove)
    assert proved == [b"edited = True\n"] * 2


@pytest.mark.parametrize("row", [[], [[], [["train.py", "", {"head": "x"}]], {}], [[["train.py"]], [], {}], [1, 2, 3]])
def test_a_kept_proof_that_cannot_be_decoded_is_ignored(root: Path, row: list[object]) -> None:
    assert _proof_reads(root, "model.py")
    site = Site(DiskTree(root), gpu=TITAN_RTX)
    offer = plan_offers(site, ["bf16-to-fp16"])
    cache = PlanCache.of(root, cache_key(offer.sources, offer.target))
    digest, _ = cache.rows[PROOF]
    cache.store_row(PROOF, digest, row)
    cache.save()
    assert _proof_reads(root, "model.py")
