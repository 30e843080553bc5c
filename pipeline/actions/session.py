"""One verb's dealings with a host: config and host by name, one connection, one look, and every later look at it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.load import LoadedConfig, LoadedHost, load_config, load_host
from pipeline.hosts.connection import connected, look
from pipeline.messages.listener import Listener
from pipeline.records.cures import read_cures
from pipeline.records.files import locked
from pipeline.records.layout import Records
from pipeline.stages.stage import Context, Wishes
from pipeline.work.view import View, data_folder
from remote.ask import Ask
from remote.sync.data import DataScan, scan_data
from remote.sync.identity import project_of
from remote.sync.scan import Scan, scan_project


@dataclass(frozen=True)
class Named:
    """What the user named, loaded."""

    loaded: LoadedConfig
    host: LoadedHost


def load_named(host: str, config: str, overrides: Sequence[str], here: Path, *, card: str = "") -> Named:
    """Config and host of those names; `--set host.KEY=...` goes to the host, everything else to the config.

    `card` is what the host is assumed to have, whatever its file says. Raises BadUsage, BadConfig.
    """
    of_host = [override.removeprefix("host.") for override in overrides if override.startswith("host.")]
    of_host += [f"card={card}"] if card else []
    of_run = [override for override in overrides if not override.startswith("host.")]
    return Named(load_config(config, here, of_run), load_host(host, here, of_host))


@contextlib.contextmanager
def alone(named: Named, doing: str) -> Iterator[None]:
    """No other verb changes this config's host until the end of the block. Raises Busy."""
    records = Records(named.loaded.root)
    records.prepare()
    with locked(records.lock(named.host.name, named.loaded.name), doing):
        yield


@contextlib.contextmanager
def working(
    named: Named, listener: Listener, wishes: Wishes, *, keep: bool = True, ask: Ask | None = None
) -> Iterator[Context]:
    """A context with its first view: the project is read here while the connection is made."""
    records = Records(named.loaded.root)
    with connected(named.host, keep=keep, ask=ask) as host, ThreadPoolExecutor(1) as pool:
        local = pool.submit(_local_facts, named.loaded, records)
        listener.progress(f"connecting to {named.host.name}")
        survey = look(host, named.host, project_of(named.loaded.root))
        scan, data = local.result()
        cures = read_cures(records.cures(named.host.name, named.loaded.name), named.loaded.as_json())
        view = View(named.loaded, named.host, records, scan, survey, host.workdir, data, cures=cures)
        yield Context(host, view, listener, wishes)


def look_again(context: Context) -> None:
    """The context's view is of this moment."""
    view = context.view
    context.view = view.with_survey(look(context.host, view.host, view.layout.key))


def _local_facts(loaded: LoadedConfig, records: Records) -> tuple[Scan, DataScan | None]:
    records.prepare()
    folder = data_folder(loaded)
    return scan_project(loaded.root), scan_data(folder, records.folder) if folder else None
