"""Load a host by name, with its overrides, as a typed config."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.config.destination import is_destination, parse_destination
from pipeline.config.document import BadConfig, Document, parse_document, read_document
from pipeline.config.find import HostSource, find_host, known_hosts
from pipeline.config.host_model import HostConfig
from pipeline.config.overrides import HOST_PREFIX, Override, parse_override
from pipeline.config.problems import validate
from pipeline.config.secret_values import check_environment, check_names, check_texts
from remote.errors import BadUsage
from remote.link.address import LOCAL, is_host_name
from remote.link.ssh.options import expand_home
from remote.link.ssh.route import MAX_PROJECT_KNOWN_HOSTS
from remote.policy.cards import UnknownCard, parse_card
from remote.project.user_folder import home
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding
from remote.protocol.regular import read_regular

CHOSEN = ("known_hosts", "host_key", "workdir")
"""The settings that are trusted if the user gave them, and need a confirmation if a host file sets them."""


@dataclass(frozen=True)
class LoadedHost:
    """A host. `path` is None for an ssh alias or an address without a file.

    `similar_names` are names of known hosts that are similar; empty if a known host has exactly this name. `source` is
    the chosen file or alias. `file_values` are the values in the host's file, without overrides. `argument` is the
    value of --host, which commands in hints repeat. `known_hosts_data` is the content of the file that `known_hosts` of
    the host's file names. It is read once, because a confirmation is valid for the host keys in it. `chosen` are the
    settings of CHOSEN that the user gave in the command; other people may have written the host file.

    For a recorded run, `path` is None, `chosen` also has the settings that the user had confirmed, and
    `known_hosts_data` has the keys that were valid when the run started. `recorded_file` is the beginning of the line
    that confirms the run's host file, or "" if the run had no host file. Without a recorded run, it is None.
    """

    name: str
    path: Path | None
    config: HostConfig
    recorded_file: str | None
    similar_names: tuple[str, ...] = ()
    source: HostSource = field(default_factory=HostSource)
    file_values: Mapping[str, Any] = field(default_factory=dict)
    argument: str = ""
    known_hosts_data: bytes | None = field(default=None, repr=False)
    chosen: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """A note that a host file was used instead of an alias of the same name, or "" if there is no such alias."""
        if self.source.shadows and self.file_values.get("host") != self.name:
            file = self.source.shadows.removeprefix("your ")
            return f"{self.name} is {self.path}, not the alias of the same name in {file}"
        return ""


def load_host(
    name: str,
    cwd: Path,
    overrides: Sequence[str] = (),
    *,
    card: str = "",
    config_path: Path | None = None,
    content: bytes | None = None,
) -> LoadedHost:
    """Load a host: a file of the project, an alias of ~/.ssh/config, a shipped file, an address, or an ssh command.

    `overrides` are `host.a=b`; `card` overrides the card of the file. Hosts next to `config_path`, the file of the
    run's config, come first. `content` is used instead of the file's bytes, if the caller has just written them:
    another user who may write to the folder could have replaced the file. Raises BadUsage, BadConfig.
    """
    source = find_host(name, cwd, config_path)
    path = source.path
    _require_one_host(name, path)
    parsed = [parse_override(override, HOST_PREFIX) for override in overrides]
    parsed += [Override(("card",), card, f"--card {card}")] if card else []
    destination = parse_destination(name) if is_destination(name) else None
    values = destination.values(cwd) if destination else {"host": name}
    file = _document(path, content) if path else Document("--host", values)
    document = file.with_overrides(parsed)
    config = validate(HostConfig, document)
    problems = (
        *_card_problems(config, document),
        *check_environment(config.env, document),
        *check_names(config.secrets, document),
        *check_texts(document),
        *_slurm_problems(config, document),
    )
    if problems:
        raise BadConfig(f"{document.path}: {len(problems)} problems", findings=problems)
    similar = () if path or destination else _similar_names(name, cwd)
    label = path.stem if path else destination.name if destination else name
    named = config.known_hosts if path and config.known_hosts == file.values.get("known_hosts") else None
    known = _known_hosts_data(named, document) if named else None
    chosen = _chosen(config, file.values if path else {})
    return LoadedHost(label, path, config, None, similar, source, file.values, name, known, chosen)


def _require_one_host(name: str, path: Path | None) -> None:
    """Raise BadUsage if the name of the host file is not a host name, or if `name` names several hosts.

    A file with a name such as "a,b.yaml" or " a.yaml" would be used in place of the host `a` that the user typed.
    """
    if path is not None and not is_host_name(path.stem):
        raise BadUsage(
            f"{path} is not used: the name of a host file must be a host name: letters, digits, . _ -",
            where=str(path),
            hint="rename the file",
        )
    if path is None and "," in name and not is_destination(name):
        raise BadUsage(f"--host {name} names several hosts; this command takes one", where="--host")


def _chosen(config: HostConfig, file_values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(key for key in CHOSEN if getattr(config, key) != file_values.get(key))


def _known_hosts_data(name: str, document: Document) -> bytes:
    """Return the content of the file, or b"" if it is missing. Raises BadConfig if it cannot be read."""
    try:
        return read_regular(expand_home(name, home(os.environ)), MAX_PROJECT_KNOWN_HOSTS, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}, so no host key can be verified"
        raise BadConfig(
            f"{document.path}: {message}", findings=(document.problem(("known_hosts",), message),)
        ) from None


def _document(path: Path, content: bytes | None) -> Document:
    return read_document(path) if content is None else parse_document(str(path), content)


def _similar_names(name: str, cwd: Path) -> tuple[str, ...]:
    known = known_hosts(cwd)
    return () if name in (*known, LOCAL) else tuple(difflib.get_close_matches(name, known, n=3))


def _slurm_problems(config: HostConfig, document: Document) -> Iterator[Finding]:
    if config.slurm is not None and config.scheduler is None:
        yield document.problem(("slurm",), "has no effect without `scheduler: slurm`", "scheduler: slurm")
    if config.container is not None and config.scheduler is not None:
        message = "cannot be combined with `scheduler`: jobs are submitted from outside of a container"
        yield document.problem(("container",), message, "command: [apptainer, exec, --nv, IMAGE, python, train.py]")


def _card_problems(config: HostConfig, document: Document) -> Iterator[Finding]:
    if config.card is None:
        return
    try:
        parse_card(config.card)
    except UnknownCard as error:
        yield document.problem(("card",), str(error), f"card: {error.near}" if error.near else "")
