"""The facts about a file are those of its text now, whether they are cached or not."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.plans.file_facts import FileFacts, read_files

TRAIN = "import torch\nfrom .model import Net\n\nloss.backward()\nif cfg.bf16:\n    x = torch.bfloat16\n"


def _facts(root: Path) -> dict[str, FileFacts]:
    return {each.path: each for each in read_files(DiskTree(root))}


def _write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text, "utf-8")


def test_cached_facts_equal_new_ones(tmp_path: Path) -> None:
    _write(tmp_path, "src/train.py", TRAIN)
    _write(tmp_path, "run.sh", "python -m src.train --bf16\n")
    first = _facts(tmp_path)
    assert list(first) == ["run.sh", "src/train.py"]
    assert first["src/train.py"].module is not None
    assert first["src/train.py"].module.trains
    assert first["src/train.py"].code.keys == ("bf16",)
    assert {"bf16-to-fp16", "launch-flags"} <= {*first["src/train.py"].fixer_names, *first["run.sh"].fixer_names}
    assert _facts(tmp_path) == first


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    _write(tmp_path, "train.py", TRAIN)
    assert _facts(tmp_path)["train.py"].fixer_names
    _write(tmp_path, "train.py", "x = 1\n")
    assert not _facts(tmp_path)["train.py"].fixer_names


def test_a_file_that_becomes_part_of_a_copied_library_says_nothing_about_the_project(tmp_path: Path) -> None:
    _write(tmp_path, "vendor/peft/__init__.py", TRAIN)
    assert _facts(tmp_path)["vendor/peft/__init__.py"].module is not None
    _write(tmp_path, "vendor/setup.py", "x = 1\n")
    assert _facts(tmp_path)["vendor/peft/__init__.py"].module is None
    (tmp_path / "vendor/setup.py").unlink()
    assert _facts(tmp_path)["vendor/peft/__init__.py"].module is not None


def test_damaged_facts_are_replaced(tmp_path: Path) -> None:
    _write(tmp_path, "train.py", TRAIN)
    first = _facts(tmp_path)
    for stored in (tmp_path / ".halfstep/planned").iterdir():
        stored.write_bytes(stored.read_bytes().replace(b'"keys":["bf16"]', b'"keys":7'))
    assert _facts(tmp_path) == first
