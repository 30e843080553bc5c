"""A text of the project is searched once per question, even if many programs contain it."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.frame.modules import read_module
from fixers.plans.code_doubts import of_code
from fixers.plans.programs import Program
from fixers.plans.text_facts import TextFacts
from tests.fixers.plans.program_files import ACCELERATE


def test_a_text_is_searched_once_per_function() -> None:
    texts = {"a.py": b"one", "b.py": b"two"}
    searched: list[bytes] = []

    def size(text: bytes) -> int:
        searched.append(text)
        return len(text)

    facts = TextFacts(texts.__getitem__)
    assert [facts.of(path, size) for path in ("a.py", "b.py", "a.py")] == [3, 3, 3]
    assert [facts.of(path, bytes.upper) for path in ("a.py", "a.py")] == [b"ONE", b"ONE"]
    assert searched == [b"one", b"two"]


def test_an_unreadable_file_has_no_text(tmp_path: Path) -> None:
    assert TextFacts(DiskTree(tmp_path).read).of("missing.py", len) == 0


def test_programs_that_share_modules_read_each_module_once() -> None:
    texts = {f"part{at}.py": b"import torch\n" for at in range(20)} | {"train.py": ACCELERATE.encode()}
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(path)
        return texts[path]

    modules = tuple(read_module(path, text) for path, text in texts.items())
    facts = TextFacts(reading)
    for entry in range(30):
        assert list(of_code(Program(f"train{entry}.py", modules), facts)) == []
    assert max(map(read.count, texts)) <= 4  # one for each question about a text
