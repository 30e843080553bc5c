"""known_hosts as OpenSSH means it: patterns, hashed names, @revoked; and what a key that a server shows is worth."""

from __future__ import annotations

import base64
import binascii
import enum
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

REVOKED = "@revoked"
AUTHORITY = "@cert-authority"


@dataclass(frozen=True)
class HostKey:
    """A server's public key as it goes over the wire."""

    kind: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """SHA256:..., as `ssh-keygen -l` prints it."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class Entry:
    """One line: which names, which key, and whether the line forbids it."""

    names: str
    key: HostKey
    revoked: bool
    where: str

    def names_host(self, name: str) -> bool:
        """Whether the line speaks of `name` (`host`, or `[host]:port` off port 22)."""
        if self.names.startswith("|1|"):
            return _hashed_match(self.names, name)
        found = False
        for pattern in self.names.lower().split(","):
            wanted = pattern.removeprefix("!")
            if fnmatch.fnmatchcase(name.lower(), wanted.replace("[", "[[]")):
                if pattern.startswith("!"):
                    return False
                found = True
        return found


class Trust(enum.Enum):
    """What known_hosts says about a key."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Judgement:
    """The word, and for a changed key the entries that say otherwise."""

    trust: Trust
    expected: tuple[Entry, ...] = ()


def parse_known_hosts(text: str, where: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The entries of one file, and a complaint for each line that is none; those are otherwise ignored."""
    entries: list[Entry] = []
    complaints: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        marker = words.pop(0) if words[0].startswith("@") else ""
        if marker == AUTHORITY:
            continue
        entry = _parse_words(words, marker, f"{where}:{number}")
        if entry is None:
            complaints.append(f"{where}:{number} is no known_hosts line and was ignored")
        else:
            entries.append(entry)
    return tuple(entries), tuple(complaints)


def _parse_words(words: list[str], marker: str, where: str) -> Entry | None:
    if len(words) < 3 or marker not in ("", REVOKED):
        return None
    names, kind, encoded = words[:3]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + size] != kind.encode():
        return None
    return Entry(names, HostKey(kind, blob), marker == REVOKED, where)


def _hashed_match(names: str, name: str) -> bool:
    try:
        _, _, salt, digest = names.split("|")
        wanted = base64.b64decode(digest, validate=True)
        return hmac.compare_digest(hmac.new(base64.b64decode(salt), name.lower().encode(), "sha1").digest(), wanted)
    except (ValueError, binascii.Error):
        return False


def known_for(entries: Iterable[Entry], name: str) -> tuple[Entry, ...]:
    """The entries that speak of `name`."""
    return tuple(entry for entry in entries if entry.names_host(name))


def judge_host_key(entries: Iterable[Entry], name: str, shown: HostKey, *, pinned: str | None = None) -> Judgement:
    """What `shown` is worth for `name`. A pinned fingerprint decides alone; a revoked key is refused whatever else.

    A known key of another type counts as changed: a server that really gained a type still has the old one to show.
    """
    about = known_for(entries, name)
    bare = name[1:].partition("]")[0] if name.startswith("[") else name
    also = known_for(entries, bare) if bare != name else ()
    if any(entry.revoked and entry.key == shown for entry in (*about, *also)):
        return Judgement(Trust.REVOKED)
    if pinned is not None:
        trust = Trust.TRUSTED if shown.fingerprint == pinned else Trust.CHANGED
        return Judgement(trust)
    allowed = tuple(entry for entry in about if not entry.revoked)
    if any(entry.key == shown for entry in allowed):
        return Judgement(Trust.TRUSTED)
    if allowed:
        return Judgement(Trust.CHANGED, allowed)
    # ssh also accepts a key that is filed under the name without the port.
    if any(entry.key == shown and not entry.revoked for entry in also):
        return Judgement(Trust.TRUSTED)
    return Judgement(Trust.UNKNOWN)
