"""A host's name and what was said of it on the command line, to a typed config."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.document import BadConfig, Document, read_document
from pipeline.config.find import HostSource, find_host, known_hosts
from pipeline.config.given import OF_HOST, Override, parse_override
from pipeline.config.model import HostConfig
from pipeline.config.problems import validate
from pipeline.config.secret_values import check_environment, check_names
from remote.link.address import LOCAL
from remote.policy.cards import UnknownCard, parse_card
from remote.protocol.findings import Finding


@dataclass(frozen=True)
class LoadedHost:
    """A host by the name it goes by; `path` None: an ssh alias or address without a file.

    `near`: what can be named and is written almost so, where no known host has that name. `source` says which of
    several hosts of that name was taken; `written` is what its file says, without what was typed over it.
    """

    name: str
    path: Path | None
    config: HostConfig
    near: tuple[str, ...] = ()
    source: HostSource = field(default_factory=HostSource)
    written: Mapping[str, Any] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Which of two hosts of the same name was taken; empty where there is only one."""
        if self.source.passed_over is not None:
            return f"{self.name} is the alias of ~/.ssh/config, not the file of that name that comes with halfstep"
        if self.source.shadows and self.written.get("host") != self.name:
            return f"{self.name} is {self.path}, not the alias of that name in ~/.ssh/config"
        return ""


def load_host(
    name: str, here: Path, overrides: Sequence[str] = (), *, card: str = "", beside: Path | None = None
) -> LoadedHost:
    """The host that `name` means: a file of the project, an alias of ~/.ssh/config, a shipped file, or an address.

    `overrides` are `host.a=b`, `card` what it is assumed to have whatever its file says; `beside` is the file of the
    run's config: hosts that lie with it come first.
    """
    source = find_host(name, here, beside)
    path = source.path
    given = [parse_override(override, OF_HOST) for override in overrides]
    given += [Override(("card",), card, f"--card {card}")] if card else []
    written = read_document(path) if path else Document("--host", {"host": name})
    document = written.with_given(given)
    config = validate(HostConfig, document)
    problems = (
        *_card_problems(config, document),
        *check_environment(config.env, document),
        *check_names(config.secrets, document),
    )
    if problems:
        raise BadConfig(f"{document.path}: {len(problems)} problems", findings=problems)
    near = () if path else _near(name, here)
    return LoadedHost(path.stem if path else name, path, config, near, source, written.values)


def _near(name: str, here: Path) -> tuple[str, ...]:
    known = known_hosts(here)
    return () if name in (*known, LOCAL) else tuple(difflib.get_close_matches(name, known, n=3))


def _card_problems(config: HostConfig, document: Document) -> Iterator[Finding]:
    if config.card is None:
        return
    try:
        parse_card(config.card)
    except UnknownCard as error:
        yield document.problem(("card",), str(error), f"card: {error.near}" if error.near else "")
