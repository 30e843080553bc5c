"""The cache of planning results for unchanged files, in the project's .halfstep folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fixers.frame.change import FileChange, SkippedPlace
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.plans.file_plan import FileOutcome
from remote.errors import BadUsage
from remote.project.digests import MAX_JSON, parse_record
from remote.project.records_folder import RECORDS_FOLDER, exclude_from_git, find_link, opened_folder
from remote.project.user_folder import is_signed, sign
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding
from remote.protocol.parts import replacing
from remote.protocol.regular import read_regular
from remote.protocol.values import decode, encode

FOLDER = f"{RECORDS_FOLDER}/planned"
CACHES_KEPT = 8
NO_OUTCOME = FileOutcome()


@runtime_checkable
class Digested(Protocol):
    """A tree in a local folder that provides the SHA-256 digest of each file."""

    root: Path

    def digest(self, path: str) -> str: ...

    def read(self, path: str) -> bytes: ...


@dataclass(frozen=True)
class StoredOutcome:
    """A stored outcome: `middle` replaces the bytes between the first `head` and the last `tail` bytes of the file."""

    head: int = 0
    tail: int = 0
    middle: str | None = None
    fixers: dict[str, int] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()


@dataclass
class PlanCache:
    """Cached outcomes by path and digest, for one set of fixers and one target."""

    file: Path
    rows: dict[str, tuple[str, object]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    grown: bool = False

    @staticmethod
    def of(root: Path, key: str) -> PlanCache:
        """Load the cache for these fixers and this target.

        Return an empty cache if no cache can be read, or if another user wrote it: a cloned project may contain one.
        """
        cache = PlanCache(root / FOLDER / f"{key}.json")
        if find_link(cache.file) is not None:
            return cache
        try:
            signature, _, data = read_regular(cache.file, MAX_JSON).partition(b"\n")
            if is_signed(cache.file.name.encode() + data, signature.decode("ascii")):
                stored = parse_record(data, is_cache=True)
                cache.rows = {path: (digest, kept) for path, (digest, kept) in stored.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            pass
        return cache

    def find(self, path: str, digest: str, tree: Digested) -> FileOutcome | None:
        """Return the stored outcome, or None if the file is new, changed or unreadable (its digest is empty)."""
        known, kept = self.rows.get(path, ("", None))
        if not digest or known != digest:
            return None
        outcome = FileOutcome() if kept is None else from_stored(path, digest, kept, tree)
        if outcome is not None:
            self.seen.add(path)
        return outcome

    def store(self, path: str, digest: str, outcome: FileOutcome) -> None:
        self.store_row(path, digest, encode(to_stored(outcome)) if outcome != NO_OUTCOME else None)

    def find_row(self, path: str, digest: str) -> list[Any] | None:
        """Return the stored row of plain values, or None if the file is new or changed."""
        known, kept = self.rows.get(path, ("", None))
        if known != digest or not isinstance(kept, list):
            return None
        self.seen.add(path)
        return kept

    def store_row(self, path: str, digest: str, row: object) -> None:
        self.grown = True
        self.seen.add(path)
        self.rows[path] = (digest, row)

    def save(self) -> None:
        """Write the cache. If the folder is a symbolic link or not writable, planning continues without a cache."""
        if not self.grown or find_link(self.file.parent) is not None:
            return
        stored = {path: row for path, row in self.rows.items() if path in self.seen}
        data = json.dumps(stored, separators=(",", ":")).encode()
        with suppress(BadUsage, OSError):
            signature = sign(self.file.name.encode() + data).encode()  # valid for these fixers and this target only
            exclude_from_git(self.file.parents[1])
            with opened_folder(self.file.parent) as folder, replacing(self.file.name, folder) as file:
                file.write(signature + b"\n" + data)
            _drop_oldest(self.file.parent)


def cache_key(fixers: Sequence[SourceFixer], target: Target) -> str:
    """Return a digest of the code, the fixers and the target: an outcome depends only on these and on the file."""
    names = [fixer.name for fixer in fixers]
    card = (target.card.capability, target.card.assumed) if target.card is not None else None
    settings = sorted(target.settings.items(), key=str)
    packages = sorted(target.packages.items())
    pins = sorted((folder, sorted(listed.items())) for folder, listed in target.pins.items())
    key = repr((code_digest(), names, card, packages, pins, settings, target.code_facts, target.started))
    return hashlib.sha256(key.encode()).hexdigest()[:32]


@cache
def code_digest() -> str:
    """Return a digest of all source files of `fixers/`."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def sparse(value: object) -> Any:
    """Return the value as JSON types. Fields of dataclasses with their default value are omitted."""
    if not is_dataclass(value):
        return [sparse(each) for each in value] if isinstance(value, tuple) else encode(value)
    pairs = ((each, getattr(value, each.name)) for each in fields(value))
    return {each.name: sparse(given) for each, given in pairs if given != _default(each)}


def _default(of: Field[Any]) -> object:
    return of.default_factory() if of.default_factory is not MISSING else of.default


def _drop_oldest(folder: Path) -> None:
    with opened_folder(folder) as opened:
        names = [name for name in os.listdir(opened) if name.endswith(".json")]  # noqa: PTH208 - `opened` is a descriptor
        names.sort(key=lambda name: os.lstat(name, dir_fd=opened).st_mtime_ns)
        for name in names[:-CACHES_KEPT]:
            os.unlink(name, dir_fd=opened)


def to_stored(outcome: FileOutcome) -> StoredOutcome:
    """Return the outcome with only those bytes of the changed file that differ from the original."""
    change = outcome.change
    if change is None:
        return StoredOutcome(findings=outcome.findings, skipped=outcome.skipped)
    head = _common_prefix(change.before, change.after)
    tail = _common_prefix(change.before[head:][::-1], change.after[head:][::-1])
    middle = change.after[head : len(change.after) - tail].decode("latin-1")
    return StoredOutcome(head, tail, middle, change.fixers, change.why, outcome.findings, outcome.skipped)


def _common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def from_stored(path: str, digest: str, stored: object, tree: Digested) -> FileOutcome | None:
    """Return the stored outcome of the file, or None if it is unusable or the file no longer has this digest."""
    try:
        kept = decode(StoredOutcome, stored)
    except ValueError:
        return None
    if kept.middle is None:
        return FileOutcome(None, kept.findings, kept.skipped)
    before = tree.read(path)
    if hashlib.sha256(before).hexdigest() != digest:
        return None
    after = before[: kept.head] + kept.middle.encode("latin-1") + before[len(before) - kept.tail :]
    return FileOutcome(FileChange(path, before, after, kept.fixers, kept.why), kept.findings, kept.skipped)
