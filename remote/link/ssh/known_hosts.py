"""Parse known_hosts (patterns, hashed names, @revoked) and judge the key that a server presents.

paramiko.HostKeys supports neither patterns nor markers, so it would accept a revoked key.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import hmac
from collections.abc import Iterable

from remote.link.ssh.host_patterns import matches_pattern
from remote.protocol.dataclass import dataclass
from remote.protocol.text import file_lines, line_fields

REVOKED = "@revoked"
AUTHORITY = "@cert-authority"
PORT_PATTERN = "0123456789*?"


@dataclass(frozen=True)
class HostKey:
    """A server's public key in SSH's binary encoding."""

    key_type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        """The fingerprint as `ssh-keygen -l` prints it: SHA256:..."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file; `where` is its file and line number.

    If `authority` is True, the key is that of a certificate authority, which no server presents.
    """

    names: str
    key: HostKey
    revoked: bool
    where: str
    authority: bool = False

    @property
    def expected(self) -> str:
        """What the entry expects of a machine with another port, for a message."""
        if self.authority:
            return f"a certificate of the authority {self.key.fingerprint} ({self.where})"
        return f"the key {self.key.fingerprint} with another port ({self.where})"

    def matches(self, name: str) -> bool:
        """Return True if the entry applies to `name`: `host`, or `[host]:port` if the port is not 22."""
        if self.names.startswith("|1|"):
            return _hashed_match(self.names, name)
        matched = False
        lowered = name.lower()
        for pattern in self.names.lower().split(","):
            if matches_pattern(lowered, pattern.removeprefix("!")):
                if pattern.startswith("!"):
                    return False
                matched = True
        return matched


class Trust(enum.Enum):
    """The state of a key in known_hosts."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


@dataclass(frozen=True)
class Verdict:
    """The state of a key. If the state is CHANGED, `expected` contains the known entries of the server."""

    trust: Trust
    expected: tuple[Entry, ...] = ()


def parse_known_hosts(text: str, where: str) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the entries of one file, and a message for each malformed line. Malformed lines are ignored."""
    entries: list[Entry] = []
    problems: list[str] = []
    for number, line in enumerate(file_lines(text), 1):
        fields = line_fields(line)
        if not fields or fields[0].startswith("#"):
            continue
        marker = fields.pop(0) if fields[0].startswith("@") else ""
        entry = _parse_fields(fields, marker, f"{where}:{number}")
        if entry is None:
            if marker == AUTHORITY:
                continue
            problems.append(f"{where}:{number} is not a valid known_hosts line and was ignored")
        else:
            entries.append(entry)
    return tuple(entries), tuple(problems)


def _parse_fields(fields: list[str], marker: str, where: str) -> Entry | None:
    if len(fields) < 3 or marker not in ("", REVOKED, AUTHORITY):
        return None
    names, key_type, encoded = fields[:3]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    size = int.from_bytes(blob[:4], "big")
    if blob[4 : 4 + size] != key_type.encode():
        return None
    return Entry(names, HostKey(key_type, blob), marker == REVOKED, where, marker == AUTHORITY)


def _hashed_match(names: str, name: str) -> bool:
    try:
        _, _, salt, digest = names.split("|")
        expected = base64.b64decode(digest, validate=True)
        return hmac.compare_digest(hmac.new(base64.b64decode(salt), name.lower().encode(), "sha1").digest(), expected)
    except (ValueError, binascii.Error):
        return False


def entries_for(entries: Iterable[Entry], name: str) -> tuple[Entry, ...]:
    """Return the entries with a server's key that match `name`."""
    return tuple(entry for entry in entries if not entry.authority and entry.matches(name))


def entries_of_machine(entries: Iterable[Entry], name: str) -> tuple[Entry, ...]:
    """Return the entries that match the name of a machine, with any port, including those of certificate authorities.

    Hashed entries are found without a port.
    """
    with_port = f"[{name.lower()}]:"
    return tuple(
        entry
        for entry in entries
        if entry.matches(name) or any(_matches_a_port(one, with_port) for one in entry.names.lower().split(","))
    )


def _matches_a_port(pattern: str, with_port: str) -> bool:
    """Return True if the pattern matches `[name]:` and any port after it."""
    if pattern.startswith(with_port) or not ("*" in pattern or "?" in pattern):
        return pattern.startswith(with_port)
    # A port matches the end of the pattern, or the rest of a `*` before it.
    ends = range(len(pattern.rstrip(PORT_PATTERN)), len(pattern) + pattern.endswith("*"))
    return any(matches_pattern(with_port, pattern[:end]) for end in ends)


def judge_host_key(entries: Iterable[Entry], name: str, presented: HostKey, *, pinned: str | None = None) -> Verdict:
    """Return the verdict on the key `presented` for the server `name`.

    A revoked key is always refused. Otherwise, a pinned fingerprint decides if there is one. If only keys of other
    types are known for the server, the verdict is CHANGED: the connection requests the known types, so a server that
    still has its old key would have presented it.
    """
    matching = entries_for(entries, name)
    host_only = name[1:].partition("]")[0] if name.startswith("[") else name
    without_port = entries_for(entries, host_only) if host_only != name else ()
    same_key = [entry for entry in (*matching, *without_port) if entry.key == presented]
    if any(entry.revoked for entry in same_key):
        return Verdict(Trust.REVOKED)
    if pinned is not None:
        return Verdict(Trust.TRUSTED if presented.fingerprint == pinned else Trust.CHANGED)
    allowed = tuple(entry for entry in matching if not entry.revoked)
    if allowed and not any(entry in allowed for entry in same_key):
        return Verdict(Trust.CHANGED, allowed)
    # OpenSSH also accepts a key that known_hosts has for the name without the port.
    return Verdict(Trust.TRUSTED if same_key else Trust.UNKNOWN)
