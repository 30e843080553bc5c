"""What planning found in files that have not changed since, kept in the project's .halfstep folder."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from fixers.change import FileChange
from fixers.disk_tree import DiskTree, Stamp
from fixers.file_plan import FileOutcome
from fixers.source_fixer import SourceFixer
from fixers.target import Target
from remote.protocol.findings import Finding
from remote.protocol.values import decode, dumps

FILE = ".halfstep/planned.json"
TOO_FRESH_NS = 100_000_000
Row = list[int]


@dataclass(frozen=True)
class Kept:
    """An outcome in few words: the bytes between what the rewritten file shares with the old one at both ends."""

    head: int = 0
    tail: int = 0
    middle: str | None = None
    before: str = ""
    fixers: dict[str, int] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass
class Memory:
    """Outcomes by path, for one question. A file that changed a moment ago is not remembered: its stamp may lie."""

    root: Path
    question: str
    now_ns: Callable[[], int] = time.time_ns
    stamps: dict[str, Row] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    grown: bool = False

    @staticmethod
    def of(root: Path, question: str) -> Memory:
        """What was remembered there for that question; empty where nothing was, or it cannot be read."""
        memory = Memory(root, question)
        try:
            stored = json.loads((root / FILE).read_bytes())
            if stored["question"] == question:
                memory.stamps, memory.kept = dict(stored["stamps"]), dict(stored["kept"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return memory

    def recall(self, path: str, stamp: Stamp, tree: DiskTree) -> FileOutcome | None:
        """The outcome of the last time; None where the file is new, changed, or not as it was."""
        if self.stamps.get(path) != _row(stamp):
            return None
        kept = self.kept.get(path)
        outcome = FileOutcome() if kept is None else _restored(path, kept, tree)
        if outcome is not None:
            self.seen.add(path)
        return outcome

    def remember(self, path: str, stamp: Stamp, outcome: FileOutcome) -> None:
        if self.now_ns() - stamp.ctime_ns < TOO_FRESH_NS:
            return
        self.grown = True
        self.seen.add(path)
        self.stamps[path] = _row(stamp)
        self.kept.pop(path, None)
        if outcome != FileOutcome():
            self.kept[path] = json.loads(dumps(_kept(outcome)))

    def save(self) -> None:
        """The next planning finds what this one did; where nothing may be written here, it does not."""
        if not self.grown:
            return
        stored = {
            "question": self.question,
            "stamps": {path: row for path, row in self.stamps.items() if path in self.seen},
            "kept": {path: kept for path, kept in self.kept.items() if path in self.seen},
        }
        file = self.root / FILE
        part = file.with_name(f".hs-part-planned-{os.getpid()}")
        try:
            _make_folder(file.parent)
            part.write_bytes(json.dumps(stored, separators=(",", ":")).encode())
            part.replace(file)
        except OSError:
            part.unlink(missing_ok=True)


def question_of(fixers: Sequence[SourceFixer], target: Target) -> str:
    """A digest of everything but the files that an outcome depends on: our own code, the fixers and the target."""
    names = [(fixer.name, fixer.version) for fixer in fixers]
    card = (target.card.capability, target.card.assumed) if target.card is not None else None
    asked = repr((our_code(), names, card, sorted(target.packages.items()), sorted(target.wishes.items(), key=str)))
    return hashlib.sha256(asked.encode()).hexdigest()


@cache
def our_code() -> str:
    """A digest of the fixers' own source files."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    unseen = folder / ".gitignore"
    if not unseen.exists():
        unseen.write_bytes(b"*\n")


def _row(stamp: Stamp) -> Row:
    return [stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode]


def _kept(outcome: FileOutcome) -> Kept:
    change = outcome.change
    if change is None:
        return Kept(findings=outcome.findings)
    head = _shared(change.before, change.after)
    tail = _shared(change.before[head:][::-1], change.after[head:][::-1])
    middle = change.after[head : len(change.after) - tail].decode("latin-1")
    before = hashlib.sha256(change.before).hexdigest()
    return Kept(head, tail, middle, before, change.fixers, change.why, outcome.findings)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _restored(path: str, stored: object, tree: DiskTree) -> FileOutcome | None:
    try:
        kept = decode(Kept, stored)
    except ValueError:
        return None
    if kept.middle is None:
        return FileOutcome(None, kept.findings)
    before = tree.read(path)
    if hashlib.sha256(before).hexdigest() != kept.before:
        return None
    after = before[: kept.head] + kept.middle.encode("latin-1") + before[len(before) - kept.tail :]
    return FileOutcome(FileChange(path, before, after, kept.fixers, kept.why), kept.findings)
