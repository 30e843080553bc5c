"""Host key verification: compare the key that a server presents with known_hosts and the host file."""

from __future__ import annotations

import base64
import fcntl
import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remote.errors import HostKeyRefused
from remote.link.prompter import Prompter
from remote.link.ssh.known_hosts import Entry, HostKey, Trust, Verdict, entries_for, judge_host_key, parse_known_hosts
from remote.link.ssh.options import home
from remote.link.ssh.route import ResolvedHop


@dataclass(frozen=True)
class KnownHosts:
    """The entries of every known_hosts file of a hop, halfstep's own file last, and warnings about these files."""

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]

    def key_types(self, name: str) -> tuple[str, ...]:
        """Return the types of the keys that are known for `name`."""
        return tuple(
            dict.fromkeys(entry.key.key_type for entry in entries_for(self.entries, name) if not entry.revoked)
        )


def own_known_hosts(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the only known_hosts file that halfstep writes."""
    config = environment.get("XDG_CONFIG_HOME") or str(home(environment) / ".config")
    return Path(config) / "halfstep/known_hosts"


def read_known_hosts(hop: ResolvedHop, own: Path) -> KnownHosts:
    """Read every known_hosts file of the hop that exists. Raises HostKeyRefused if one is not readable."""
    entries: list[Entry] = []
    warnings: list[str] = []
    for path in dict.fromkeys([*map(Path, hop.known_hosts), own]):
        try:
            data = path.read_bytes()
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise HostKeyRefused(
                f"cannot read {path} ({error.strerror}), so no host key can be verified",
                where=str(path),
                hint=f"chmod u+r {shlex.quote(str(path))}",
            ) from None
        if mode & stat.S_IWOTH and stat.S_ISREG(mode):
            warnings.append(f"{path} is writable by every user of this machine: chmod 644 {path}")
        found, problems = parse_known_hosts(data.decode("utf-8", "replace"), str(path))
        entries += found
        warnings += problems
    return KnownHosts(tuple(entries), tuple(warnings))


def verify_host_key(
    hop: ResolvedHop, known: KnownHosts, presented: HostKey, own: Path, prompter: Prompter | None
) -> None:
    """Raise HostKeyRefused unless `presented` is a key of the hop; the user is prompted for an unknown key."""
    verdict = judge_host_key(known.entries, hop.key_name, presented, pinned=hop.host_key)
    if verdict.trust is Trust.TRUSTED:
        return
    if verdict.trust is Trust.UNKNOWN:
        if not hop.accept_new and not _accepted(hop, presented, prompter):
            raise _unknown(hop, presented)
        add_known_host(own, hop.key_name, presented)
        return
    raise _refused(hop, presented, verdict)


def _accepted(hop: ResolvedHop, presented: HostKey, prompter: Prompter | None) -> bool:
    if prompter is None:
        return False
    return prompter.confirm(
        f"The host key of {hop.where} ({hop.alias}) is unknown: {presented.key_type}\n"
        f"  {presented.fingerprint}\n"
        "Compare it with the fingerprint that the machine's owner or console shows. Is it correct?"
    )


def _unknown(hop: ResolvedHop, presented: HostKey) -> HostKeyRefused:
    """The hint is valid for a gateway too: `hosts check` asks about every hop of the route in turn."""
    name = hop.destination or hop.alias
    check = f"pipeline hosts check {shlex.quote(name)}   (asks at a terminal)"
    pin = f", or add --set host.host_key={presented.fingerprint}" if hop.is_target else ""
    kind = "host" if hop.is_target else "gateway"
    return HostKeyRefused(
        f"the host key of {kind} {hop.alias} ({hop.where}) is unknown: {presented.key_type} {presented.fingerprint}; "
        "nothing was sent to it",
        where=hop.key_name,
        hint=check + pin,
    )


def _refused(hop: ResolvedHop, presented: HostKey, verdict: Verdict) -> HostKeyRefused:
    name = f"{hop.alias} ({hop.where})"
    if verdict.trust is Trust.REVOKED:
        return HostKeyRefused(f"{name} presents a revoked host key: {presented.fingerprint}", where=hop.key_name)
    if hop.host_key:
        return HostKeyRefused(
            f"the host key of {name} HAS CHANGED: it presents {presented.fingerprint}, the host file pins "
            f"{hop.host_key}; nothing was sent to it",
            where="host_key",
            hint="only if the machine was reinstalled: set `host_key` to the new fingerprint",
        )
    expected = ", ".join(f"{entry.key.key_type} {entry.key.fingerprint} ({entry.where})" for entry in verdict.expected)
    path = verdict.expected[0].where.rpartition(":")[0]
    return HostKeyRefused(
        f"the host key of {name} HAS CHANGED: it presents {presented.key_type} {presented.fingerprint}, expected is "
        f"{expected}; this may be a man-in-the-middle attack, so nothing was sent to it",
        where=verdict.expected[0].where,
        hint=f"only if the machine was reinstalled: ssh-keygen -R '{hop.key_name}' -f {shlex.quote(path)}",
    )


def add_known_host(own: Path, name: str, key: HostKey) -> None:
    """Append the key to halfstep's own known_hosts, once and under a lock; the file is readable by its owner only."""
    own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(own, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        line = f"{name} {key.key_type} {base64.b64encode(key.blob).decode()}\n".encode()
        content = file.read()
        if line in content:
            return
        file.write((b"" if content.endswith(b"\n") or not content else b"\n") + line)
        file.flush()
        os.fsync(file.fileno())
