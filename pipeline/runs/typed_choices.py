"""What the user typed to select what is sent, and the machines for which it was typed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from pipeline.config.find import is_path, is_shipped_host
from pipeline.config.hosts import LoadedHost
from pipeline.config.overrides import HOST_PREFIX, host_overrides, parse_override
from pipeline.hosts.pinned_keys import destination_of
from pipeline.messages.hints import overrides_in
from pipeline.records.consents import keep_consent, read_consents
from pipeline.runs.consent import own_project
from pipeline.runs.selection import DATA_PATH, PROJECT, SECRETS, Selection, is_set
from pipeline.runs.view import data_folder
from remote.link.address import LOCAL
from remote.project.paths import resolved
from remote.project.user_folder import user_file
from remote.protocol.dataclass import dataclass

TYPED = (PROJECT, DATA_PATH, SECRETS)
"""The settings of a config that need no confirmation if the user typed them."""
HOST_SECRETS = "host.secrets"
CONFIG = "--config"
KEPT = "typed_for"
"""The user's file with the machines for which such settings were typed. It contains only digests."""


@dataclass(frozen=True)
class Use:
    """One typed option, and where it sends what it selects. The values are digests, except for `name`.

    `name` is the option as it is shown, without its value. `asks` is False if it needs no confirmation itself.
    """

    name: str
    host: str
    project: str
    option: str
    machine: str
    asks: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """The line of the use in the user's file."""
        return (self.host, self.project, self.option, self.machine)


def settings_typed(overrides: Sequence[str]) -> list[str]:
    """Return the names of the settings among the `--set` options that select what is sent."""
    typed = [".".join(key) for key in TYPED if is_set(key, overrides)]
    if any(parse_override(one, HOST_PREFIX).covers(SECRETS) for one in host_overrides(overrides)):
        typed.append(HOST_SECRETS)
    return typed


def options_in(given: Sequence[str]) -> list[str]:
    """Return the values of `--set` among recorded arguments."""
    return [following for word, following in pairwise(overrides_in(given)) if word == "--set"]


def uses_of(selection: Selection, adapter: str = "") -> list[Use]:
    """Return the typed options that select what is sent; `adapter` is the folder of `evaluate --adapter`.

    `--config` is one of them if the host file is not in the config's own project: then the file of another project
    selects the machine. A config that was typed as a path asks nothing otherwise, but is stored: it may be in another
    project the next time, if there is a link in the path.
    """
    loaded, host = selection.loaded, selection.host
    own, config = own_project(loaded), dict(pairwise(selection.given)).get(CONFIG, "")
    values = {
        ".".join(PROJECT): str(loaded.root),
        ".".join(DATA_PATH): str(data_folder(loaded)),
        ".".join(SECRETS): " ".join(sorted(set(loaded.config.secrets))),
        HOST_SECRETS: " ".join(sorted(set(host.config.secrets))),
    }
    typed = {name: values[name] for name in settings_typed(options_in(selection.given))}
    if adapter:
        typed["--adapter"] = adapter
    file = None if host.path is None or is_shipped_host(host.path) else resolved(host.path)
    elsewhere = file is not None and not file.is_relative_to(own)
    if elsewhere or (file is not None and is_path(config)):
        typed[CONFIG] = str(loaded.root)
    where, machine = (_digest(host.name), _digest(str(own))), machine_of(host)
    return [
        Use(name, *where, _digest(f"{name}={value}"), machine, asks=elsewhere or name != CONFIG)
        for name, value in typed.items()
    ]


def machine_of(host: LoadedHost) -> str:
    """Return a digest of the host's machine, account and host keys."""
    return _digest(LOCAL if host.config.host == LOCAL else destination_of(host))


def unexpected(uses: Iterable[Use], together: Sequence[LoadedHost]) -> list[Use]:
    """Return the uses whose machine is not the one for which the option was typed before.

    They are those whose host's name selected another machine the last time in this project (or, if the name is new
    there, ever in another project), and those whose option was typed with the same value for another machine, under any
    name. This machine and the hosts in `together`, which the same command names, do not count as other machines for an
    option. A first use is neither.
    """
    kept = [Use("", *line) for line in read_consents(_file()) if len(line) == 4]
    near = {_digest(LOCAL), *map(machine_of, together)}
    return [one for one in uses if _is_unexpected(one, kept, near)]


def _is_unexpected(use: Use, kept: Sequence[Use], near: set[str]) -> bool:
    last = next((one for one in reversed(kept) if (one.host, one.project) == (use.host, use.project)), None)
    others = [one for one in kept if one.machine != use.machine]
    moved = any(one.host == use.host for one in others) if last is None else last.machine != use.machine
    renamed = any(one.option == use.option and one.machine not in near for one in others)
    return moved or (renamed and not any((one.option, one.machine) == (use.option, use.machine) for one in kept))


def keep_uses(lines: Iterable[tuple[str, ...]]) -> None:
    """Store the lines of uses in the user's file. Raises BadUsage, DiskFull.

    A known line is repeated if the name's last machine in this project was another one.
    """
    kept = read_consents(_file())
    known, last = set(kept), {line[:2]: line[-1] for line in kept}
    for line in lines:
        if line not in known or last.get(line[:2]) != line[-1]:
            keep_consent(_file(), *line)
            last[line[:2]] = line[-1]


def _file() -> Path:
    return user_file(KEPT, os.environ)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
