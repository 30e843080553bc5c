"""Whether the server that answers is the one that is meant: asked before anything else is sent to it."""

from __future__ import annotations

import base64
import fcntl
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remote.errors import HostKeyRefused
from remote.link.ask import Prompter
from remote.link.ssh.known_hosts import Entry, HostKey, Judgement, Trust, judge_host_key, known_for, parse_known_hosts
from remote.link.ssh.options import home
from remote.link.ssh.route import Station


@dataclass(frozen=True)
class Known:
    """Every entry of the files a station trusts, ours last, and what was wrong with them."""

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...]

    def kinds(self, name: str) -> tuple[str, ...]:
        """The key types known for `name`: a server is asked for these first."""
        return tuple(dict.fromkeys(entry.key.kind for entry in known_for(self.entries, name) if not entry.revoked))


def own_known_hosts(environment: Mapping[str, str] = os.environ) -> Path:
    """The only known_hosts file that halfstep writes."""
    config = environment.get("XDG_CONFIG_HOME") or str(home(environment) / ".config")
    return Path(config) / "halfstep/known_hosts"


def read_known(station: Station, own: Path) -> Known:
    """What is known about host keys. Raises HostKeyRefused where a file is there and cannot be read."""
    entries: list[Entry] = []
    warnings: list[str] = []
    for path in dict.fromkeys([*map(Path, station.known_hosts), own]):
        try:
            data = path.read_bytes()
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise HostKeyRefused(
                f"{path} cannot be read ({error.strerror}), so no host key can be checked",
                where=str(path),
                hint=f"chmod u+r {path}",
            ) from None
        if mode & stat.S_IWOTH and stat.S_ISREG(mode):
            warnings.append(f"{path} can be written by everybody on this machine: chmod 644 {path}")
        found, complaints = parse_known_hosts(data.decode("utf-8", "replace"), str(path))
        entries += found
        warnings += complaints
    return Known(tuple(entries), tuple(warnings))


def verify_host_key(station: Station, known: Known, shown: HostKey, own: Path, ask: Prompter | None) -> None:
    """The server may be spoken to. Raises HostKeyRefused; an unknown key is asked about where somebody can be."""
    judgement = judge_host_key(known.entries, station.key_name, shown, pinned=station.host_key)
    if judgement.trust is Trust.TRUSTED:
        return
    if judgement.trust is Trust.UNKNOWN:
        if not station.accept_new and not _accepted(station, shown, ask):
            raise _unknown(station, shown)
        remember(own, station.key_name, shown)
        return
    raise _refused(station, shown, judgement)


def _accepted(station: Station, shown: HostKey, ask: Prompter | None) -> bool:
    if ask is None:
        return False
    return ask.confirm(
        f"{station.where} ({station.alias}) is not known yet. It shows the {shown.kind} key\n"
        f"  {shown.fingerprint}\n"
        "Compare it with what the machine's owner or console says. Is it the right one?"
    )


def _unknown(station: Station, shown: HostKey) -> HostKeyRefused:
    return HostKeyRefused(
        f"the host key of {station.alias} ({station.where}) is unknown: {shown.kind} {shown.fingerprint}; "
        "nothing was sent to it",
        where=station.key_name,
        hint=f"if that is its key, put `host_key: {shown.fingerprint}` into its file in configs/hosts, "
        f"or answer once at a terminal: pipeline hosts check {station.alias}",
    )


def _refused(station: Station, shown: HostKey, judgement: Judgement) -> HostKeyRefused:
    name = f"{station.alias} ({station.where})"
    if judgement.trust is Trust.REVOKED:
        return HostKeyRefused(f"{name} shows a revoked host key: {shown.fingerprint}", where=station.key_name)
    if station.host_key:
        return HostKeyRefused(
            f"the host key of {name} HAS CHANGED: it shows {shown.fingerprint}, the config pins {station.host_key}; "
            "nothing was sent to it",
            where="host_key",
            hint="only if the machine was made anew: put the new fingerprint there",
        )
    expected = ", ".join(f"{entry.key.kind} {entry.key.fingerprint} ({entry.where})" for entry in judgement.expected)
    return HostKeyRefused(
        f"the host key of {name} HAS CHANGED: it shows {shown.kind} {shown.fingerprint}, known is {expected}; "
        "somebody may be listening in, so nothing was sent to it",
        where=judgement.expected[0].where,
        hint=f"only if the machine was made anew: ssh-keygen -R '{station.key_name}'"
        f" -f {judgement.expected[0].where.rpartition(':')[0]}",
    )


def remember(own: Path, name: str, key: HostKey) -> None:
    """Our own known_hosts has the key under `name`, once; appended under a lock, readable by its owner only."""
    own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd = os.open(own, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        line = f"{name} {key.kind} {base64.b64encode(key.blob).decode()}\n".encode()
        held = file.read()
        if line in held:
            return
        file.write((b"" if held.endswith(b"\n") or not held else b"\n") + line)
        file.flush()
        os.fsync(file.fileno())
