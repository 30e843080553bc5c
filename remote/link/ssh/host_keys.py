"""Verify the key that a server presents against known_hosts and the host file."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from remote.errors import HostKeyRefused
from remote.link.address import is_this_machine
from remote.link.prompter import Prompter
from remote.link.ssh.known_hosts import (
    Entry,
    HostKey,
    Trust,
    Verdict,
    entries_for,
    entries_of_machine,
    judge_host_key,
    parse_known_hosts,
)
from remote.link.ssh.known_hosts_command import OPTION, run_known_hosts_command
from remote.link.ssh.revoked_keys import require_not_revoked
from remote.link.ssh.route import MAX_KNOWN_HOSTS, ResolvedHop
from remote.project.user_folder import create_private, user_file
from remote.protocol.dataclass import dataclass
from remote.protocol.regular import read_regular
from remote.protocol.shell import shell_command


@dataclass(frozen=True)
class KnownHosts:
    """The entries of all known_hosts files of a hop, halfstep's file last, and the warnings about these files.

    `printed` are the entries that KnownHostsCommand prints before the server has presented a key. `users` are the
    entries of the user's own files that apply although the host file sets `known_hosts:` or `host_key:`.
    """

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]
    printed: tuple[Entry, ...] = ()
    users: tuple[Entry, ...] = ()

    def key_types(self, hop: ResolvedHop) -> tuple[str, ...]:
        """Return the types of the keys that are known for the server: those that the user knows, if there are any."""
        users = self.users_entries(hop, self.printed)
        found = [entry for name in hop.key_names for entry in entries_for(users, name) if not entry.revoked]
        found = found or [*entries_for((*self.entries, *self.printed), hop.key_name)]
        return tuple(dict.fromkeys(entry.key.key_type for entry in found if not entry.revoked))

    def users_entries(self, hop: ResolvedHop, printed: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Return the entries of the user that apply whatever the host file pins."""
        entries = (*self.users, *printed) if hop.has_pins else ()
        return tuple(entry for entry in entries if entry.revoked or not hop.trusts_keys)


def own_known_hosts(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of halfstep's known_hosts file. halfstep writes to no other known_hosts file."""
    return user_file("known_hosts", environment)


def read_known_hosts(hop: ResolvedHop, own: Path) -> KnownHosts:
    """Read the existing known_hosts files of the hop, and run its KnownHostsCommand.

    Raises HostKeyRefused if a file is not readable, or if the command fails.
    """
    found: dict[Path, tuple[Entry, ...]] = {}
    warnings: list[str] = []
    named, users = [Path(path) for path in hop.known_hosts], [Path(path) for path in hop.users_known_hosts]
    for path in dict.fromkeys([*named, *users, own]):
        limit = hop.known_hosts_limit if path in named else MAX_KNOWN_HOSTS
        # The user's own file, if the host file names it, is always read: it may have new @revoked lines.
        data = hop.known_hosts_data if path in named and path not in (*users, own) else None
        found[path], problems = _read_file(path, limit, data)
        warnings += problems
    printed, problems = run_known_hosts_command(hop, None)
    entries = [entry for path in dict.fromkeys([*named, own]) for entry in found[path]]
    kept = [entry for path in dict.fromkeys([*users, own]) for entry in found[path]] if hop.has_pins else []
    return KnownHosts(tuple(entries), (*warnings, *problems), printed, tuple(kept))


def _read_file(path: Path, limit: int, data: bytes | None) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Return the entries of a file and the warnings about it. `data` is its content, if it was read before.

    Raises HostKeyRefused if the file exists but is not readable.
    """
    try:
        if path == Path(os.devnull):
            return (), ()  # `UserKnownHostsFile /dev/null` means that there is no file.
        data = read_regular(path, limit, follow=True) if data is None else data
    except (FileNotFoundError, NotADirectoryError):
        return (), ()
    except OSError as error:
        raise HostKeyRefused(
            f"cannot read {path} ({error.strerror}), so no host key can be verified",
            where=str(path),
            hint=shell_command("ls -lL {}", path),
        ) from None
    entries, problems = parse_known_hosts(data.decode("utf-8", "replace"), str(path))
    if _is_writable_by_all(path):
        command = shell_command("`chmod 644 {}`", path)
        problems = (f"{path} is writable by every user of this machine: {command}", *problems)
    return entries, problems


def _is_writable_by_all(path: Path) -> bool:
    """Return True if every user may write to the file. False if it has been deleted since its content was read."""
    try:
        return bool(path.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def is_known_host(path: Path, name: str, port: int | None = None) -> bool:
    """Return True if a known_hosts file has an entry for the name; see `is_known_machine`."""
    try:
        text = read_regular(path, MAX_KNOWN_HOSTS, follow=True).decode("utf-8", "replace")
    except OSError:
        return False
    return is_known_machine(parse_known_hosts(text, str(path))[0], name, port)


def is_known_machine(entries: Iterable[Entry], name: str, port: int | None = None) -> bool:
    """Return True if an entry applies to the name, with any port.

    A hashed entry is found only if it was stored without a port or with the given port. A certificate authority of
    every machine (`*`) does not count.
    """
    kept = [one for one in entries if not one.authority or one.names.strip("*?,")]
    return bool(entries_of_machine(kept, name) or (port and entries_for(kept, f"[{name}]:{port}")))


def verify_host_key(
    hop: ResolvedHop, known: KnownHosts, presented: HostKey, own: Path, prompter: Prompter | None
) -> None:
    """Raise HostKeyRefused unless `presented` is a trusted key of the hop. The user is prompted for an unknown key."""
    require_not_revoked(hop, presented)
    printed, _ = run_known_hosts_command(hop, presented)
    entries, known_to_user = (*known.entries, *printed), False
    users = known.users_entries(hop, printed)
    for name in hop.key_names if users else ():
        verdict = judge_host_key(users, name, presented)
        if verdict.trust in (Trust.REVOKED, Trust.CHANGED):
            raise _refused(hop, presented, verdict, name)
        known_to_user = known_to_user or verdict.trust is Trust.TRUSTED
    if known_to_user:
        entries = _contradictions(entries, hop, presented)
    other = None if known_to_user else _other_port(users, hop, presented)
    verdict = judge_host_key(entries, hop.key_name, presented, pinned=hop.host_key)
    if verdict.trust is Trust.TRUSTED and other is not None:
        verdict = Verdict(Trust.UNKNOWN)
    if verdict.trust is Trust.TRUSTED or (known_to_user and verdict.trust is Trust.UNKNOWN):
        return
    if verdict.trust is Trust.UNKNOWN:
        if not hop.accept_new and not _accepted(hop, presented, other, prompter):
            raise _unknown(hop, presented, other)
        add_known_host(own, hop.key_name, presented)
        return
    raise _refused(hop, presented, verdict, hop.key_name)


def _other_port(users: tuple[Entry, ...], hop: ResolvedHop, presented: HostKey) -> Entry | None:
    """Return an entry of the user for the same machine with another port, if no such entry has the presented key.

    An entry of a certificate authority is returned too: the machine should present a certificate.

    A man in the middle of a machine may serve any port of it. The ports of this machine may be tunnels to several
    machines, so that only its own key, the one without a port, counts.
    """
    found: list[Entry] = []
    for name in {name[1:].partition("]")[0] if name.startswith("[") else name for name in hop.key_names}:
        here = is_this_machine(name)
        found += [one for one in entries_of_machine(users, name) if not here or one.authority or one.matches(name)]
    known = [entry for entry in found if not entry.revoked]
    return known[0] if known and not any(entry.key == presented for entry in known) else None


def _contradictions(entries: tuple[Entry, ...], hop: ResolvedHop, presented: HostKey) -> tuple[Entry, ...]:
    """Return the entries that may contradict a key that the user knows.

    The file of `known_hosts:` may contain only keys of other types of this server, and a record only its old keys.
    """
    key_type = None if hop.keys_are_recorded else presented.key_type
    return tuple(entry for entry in entries if entry.revoked or entry.key.key_type == key_type)


def _accepted(hop: ResolvedHop, presented: HostKey, other: Entry | None, prompter: Prompter | None) -> bool:
    if prompter is None or hop.strict or hop.batch:
        return False
    differs = f"Your known_hosts expects {other.expected}.\n" if other else ""
    return prompter.confirm(
        f"The host key of {hop.where} ({hop.alias}) is unknown: {presented.key_type}\n"
        f"  {presented.fingerprint}\n{differs}"
        "Compare it with the fingerprint that the machine's owner or console shows. Is it correct?"
    )


def _unknown(hop: ResolvedHop, presented: HostKey, other: Entry | None) -> HostKeyRefused:
    """Return the error for an unknown key.

    Its hint is valid for a gateway too, since `hosts check` verifies every hop.
    """
    name = hop.destination or hop.alias
    check = shell_command("pipeline hosts check {}   (asks at a terminal)", name)
    why = "StrictHostKeyChecking yes" if hop.strict else "BatchMode yes" if hop.batch else ""
    if why:
        check = f"add the key to known_hosts, because {why} in ~/.ssh/config forbids the question"
    pin = f", or add --set host.host_key={presented.fingerprint}" if hop.is_target else ""
    kind = "host" if hop.is_target else "gateway"
    known = f", your known_hosts expects {other.expected}" if other else ""
    return HostKeyRefused(
        f"the host key of {kind} {hop.alias} ({hop.where}) is unknown: {presented.key_type} {presented.fingerprint}"
        f"{known}; nothing was sent to it",
        where=hop.key_name,
        hint=check + pin,
    )


def _refused(hop: ResolvedHop, presented: HostKey, verdict: Verdict, key_name: str) -> HostKeyRefused:
    name = f"{hop.alias} ({hop.where})"
    if verdict.trust is Trust.REVOKED:
        return HostKeyRefused(f"{name} presents a revoked host key: {presented.fingerprint}", where=hop.key_name)
    if not verdict.expected:
        return HostKeyRefused(
            f"the host key of {name} HAS CHANGED: it presents {presented.fingerprint}, the host file pins "
            f"{hop.host_key}; nothing was sent to it",
            where="host_key",
            hint="only if the machine was reinstalled: set `host_key` to the new fingerprint",
        )
    expected = ", ".join(f"{entry.key.key_type} {entry.key.fingerprint} ({entry.where})" for entry in verdict.expected)
    path = verdict.expected[0].where.rpartition(":")[0]
    forget = shell_command("ssh-keygen -R {} -f {}", key_name, path)
    if path == OPTION:
        forget = f"correct what {OPTION} prints"
    return HostKeyRefused(
        f"the host key of {name} HAS CHANGED: it presents {presented.key_type} {presented.fingerprint}, expected is "
        f"{expected}; this may be a man-in-the-middle attack, so nothing was sent to it",
        where=verdict.expected[0].where,
        hint=f"only if the machine was reinstalled: {forget}",
    )


def add_known_host(own: Path, name: str, key: HostKey) -> None:
    """Append the key to halfstep's known_hosts file, under a lock, unless the file contains it.

    Only the owner can read the file. Raises HostKeyRefused if the file cannot be written.
    """
    line = f"{name} {key.key_type} {base64.b64encode(key.blob).decode()}".encode()
    try:
        with open_to_append(own) as file:
            content = file.read(MAX_KNOWN_HOSTS)
            if line in content.split(b"\n"):
                return
            file.write((b"" if content.endswith(b"\n") or not content else b"\n") + line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise HostKeyRefused(
            f"{own} cannot be written ({error.strerror}), so the host key of {name} cannot be stored",
            where=str(own),
            hint=shell_command("ls -l {}", own),
        ) from None


@contextlib.contextmanager
def open_to_append(path: Path) -> Iterator[BinaryIO]:
    """Open and lock a file of the user's configuration folder. Create it with mode 0600 if it is missing.

    Raises OSError if it is not a regular file, or if it is a link.
    """
    create_private(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "rb+") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
