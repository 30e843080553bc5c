"""Run fixers on thousands of real files: none fails, and only lines with a reported reason change.

A sample is drawn by seed. HALFSTEP_CORPUS=all uses every file, HALFSTEP_CORPUS=<seed> another sample.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import random
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import TITAN_RTX

PACKAGES = ("transformers", "peft", "accelerate", "datasets", "torch")
ASKED = os.environ.get("HALFSTEP_CORPUS", "20261120")
SAMPLE = 25
WORDS = (b"bfloat16", b"bf16", b"GradScaler", b"_loss(", b"flash_att", b"device_map", b"label", b"RANK", b"Trainer(")
TARGET = Target(TITAN_RTX, {"transformers": "5.23.0"})


@dataclass(frozen=True)
class Looked:
    """One file of the corpus and its result."""

    path: str
    before: bytes
    change: FileChange | None
    errors: tuple[str, ...]


def _files() -> list[Path]:
    """Return all files, or for each package a sample of the files that a fixer may change."""
    chosen: list[Path] = []
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None and spec.origin is not None
        files = sorted(Path(spec.origin).parent.rglob("*.py"))
        if ASKED != "all":
            files = [file for file in files if any(word in file.read_bytes() for word in WORDS)]
            files = random.Random(f"{ASKED} {package}").sample(files, min(SAMPLE, len(files)))
        chosen += files
    return chosen


@pytest.fixture(scope="module")
def looked() -> list[Looked]:
    start = time.process_time()
    found = []
    size = 0
    for file in _files():
        before = file.read_bytes()
        size += len(before)
        outcome = plan_file(str(file), before, source_fixers(), TARGET)
        errors = tuple(f"{f.where}: {f.message}" for f in outcome.findings if f.severity.value == "error")
        found.append(Looked(str(file), before, outcome.change, errors))
    acted = sum(each.change is not None for each in found)
    seconds = time.process_time() - start
    print(f"\n{len(found)} files, {size / 1e6:.1f} MB, {acted} rewritten, {seconds:.1f} s of CPU")
    return found


def test_no_file_of_the_corpus_is_refused(looked: list[Looked]) -> None:
    broken = [error for each in looked for error in each.errors if not _is_broken(each)]
    assert broken == []


def test_rewritten_files_parse_and_a_second_pass_changes_nothing(looked: list[Looked]) -> None:
    changes = [each.change for each in looked if each.change is not None]
    assert changes
    for change in changes:
        _parse(change.after)
        assert plan_file(change.path, change.after, source_fixers(), TARGET).change is None


def test_lines_without_a_reason_are_as_they_were(looked: list[Looked]) -> None:
    for each in looked:
        if each.change is None:
            continue
        before, after = each.change.before.split(b"\n"), each.change.after.split(b"\n")
        assert each.change.before == each.before
        untouched = _common(before, after)
        gone = len(before) - untouched
        assert gone <= len(each.change.why), each.path
        assert _comments(each.change.before) <= _comments(each.change.after), each.path


def _common(before: list[bytes], after: list[bytes]) -> int:
    """Return how many lines of `before` also occur, in order, in `after`."""
    at = found = 0
    for line in before:
        try:
            at = after.index(line, at) + 1
        except ValueError:
            continue
        found += 1
    return found


def _comments(data: bytes) -> set[bytes]:
    return {line.strip() for line in data.split(b"\n") if line.strip().startswith(b"#")}


def _parse(data: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(data)


def _is_broken(each: Looked) -> bool:
    """Return True for the few files of the corpus that are not valid Python for this interpreter."""
    try:
        _parse(each.before)
    except (SyntaxError, ValueError):
        return True
    return False
