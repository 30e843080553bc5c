"""One verb's dealings with a host: config and host by name, one connection, one look, and every later look at it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.load import LoadedConfig, LoadedHost, load_config, load_host
from pipeline.config.model import HostConfig
from pipeline.cures import read_cures
from pipeline.files import locked
from pipeline.memory import Memory
from pipeline.stages.stage import Context, Wishes
from pipeline.stages.view import View, data_folder, python_of, survey_request
from pipeline.telling import Telling
from remote.address import Address
from remote.ask import Ask
from remote.host import Host
from remote.jobs import take_survey
from remote.protocol.survey import Survey
from remote.reach import open_host
from remote.sync.data import DataScan, scan_data
from remote.sync.identity import project_of
from remote.sync.scan import Scan, scan_project


@dataclass(frozen=True)
class Named:
    """What the user named, loaded."""

    loaded: LoadedConfig
    host: LoadedHost


def load_named(host: str, config: str, overrides: Sequence[str], here: Path) -> Named:
    """Config and host of those names; `--set host.KEY=...` goes to the host, everything else to the config."""
    of_host = [override.removeprefix("host.") for override in overrides if override.startswith("host.")]
    of_run = [override for override in overrides if not override.startswith("host.")]
    return Named(load_config(config, here, of_run), load_host(host, here, of_host))


def address_of(host: LoadedHost) -> Address:
    """How to reach it."""
    return address_from(host.name, host.config)


def address_from(name: str, config: HostConfig) -> Address:
    return Address(
        name=name,
        host=config.host,
        port=config.port,
        user=config.user,
        identity_file=config.identity_file,
        known_hosts=config.known_hosts,
        host_key=config.host_key,
        proxy_jump=config.proxy_jump,
        workdir=config.workdir,
        python=python_of(config),
        container=config.container,
        scheduler=config.scheduler,
        env=config.env,
    )


@contextlib.contextmanager
def opened(host: LoadedHost, *, keep: bool, ask: Ask | None = None) -> Iterator[Host]:
    """The host, its connection closed at the end of the block. `keep` False leaves nothing of ours behind."""
    link = open_host(address_of(host), keep=keep, ask=ask)
    try:
        yield link
    finally:
        link.close()


def look(host: Host, named: LoadedHost, project: str) -> Survey:
    """The host at this moment, in one exchange."""
    return take_survey(host, survey_request(named, project))


@contextlib.contextmanager
def alone(named: Named, doing: str) -> Iterator[None]:
    """No other verb changes this config's host until the end of the block. Raises Busy."""
    memory = Memory(named.loaded.root)
    memory.prepare()
    with locked(memory.lock(named.host.name, named.loaded.name), doing):
        yield


@contextlib.contextmanager
def working(
    named: Named, telling: Telling, wishes: Wishes, *, keep: bool = True, ask: Ask | None = None
) -> Iterator[Context]:
    """A context with its first view: the project is read here while the connection is made."""
    memory = Memory(named.loaded.root)
    with opened(named.host, keep=keep, ask=ask) as host, ThreadPoolExecutor(1) as pool:
        local = pool.submit(_local_facts, named.loaded, memory)
        telling.progress(f"connecting to {named.host.name}")
        survey = look(host, named.host, project_of(named.loaded.root))
        scan, data = local.result()
        cures = read_cures(memory.cures(named.host.name, named.loaded.name), named.loaded.as_json())
        view = View(named.loaded, named.host, memory, scan, survey, host.workdir, data, cures=cures)
        yield Context(host, view, telling, wishes)


def look_again(context: Context) -> None:
    """The context's view is of this moment."""
    view = context.view
    context.view = view.with_survey(look(context.host, view.host, view.layout.key))


def _local_facts(loaded: LoadedConfig, memory: Memory) -> tuple[Scan, DataScan | None]:
    memory.prepare()
    folder = data_folder(loaded)
    return scan_project(loaded.root), scan_data(folder, memory.folder) if folder else None
