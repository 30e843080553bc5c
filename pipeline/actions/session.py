"""One verb's dealings with a host: config and host by name, one connection, one look, and every later look at it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipeline.config.document import BadConfig
from pipeline.config.find import find_config
from pipeline.config.given import for_host, for_run
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.config.load import LoadedConfig, load_config
from pipeline.hosts.connection import connected, survey_host
from pipeline.messages.errors import findings_of
from pipeline.messages.hints import as_named, given_beside
from pipeline.messages.listener import Listener
from pipeline.records.cures import read_cures
from pipeline.records.files import Lock, locked
from pipeline.records.layout import Records
from pipeline.stages.stage import Context, RunOptions
from pipeline.work.data_consent import names_data, require_data_consent
from pipeline.work.view import View, data_folder, data_name
from remote.errors import HalfstepError
from remote.link.ask import Prompter
from remote.project.identity import project_of
from remote.project.scan import Scan, scan_project
from remote.sync.data import DataScan, scan_data

T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """What the user named, loaded; `given` are the words that named it, for whoever types them again."""

    loaded: LoadedConfig
    host: LoadedHost
    given: tuple[str, ...] = ()
    data_typed: bool = False


def load_selection(host: str, config: str, overrides: Sequence[str], here: Path, *, card: str = "") -> Selection:
    """Config and host of those names; `--set host.KEY=...` goes to the host, everything else to the config.

    `card` is what the host is assumed to have, whatever its file says. Raises BadUsage, BadConfig.
    """
    loaded = _or_why_not(lambda: load_config(config, here, for_run(overrides)))
    file = _or_why_not(lambda: find_config(config, here))
    beside = file if isinstance(file, Path) else None
    reached = _or_why_not(lambda: load_host(host, here, for_host(overrides), card=card, beside=beside))
    if isinstance(loaded, HalfstepError) or isinstance(reached, HalfstepError):
        raise _both(*(one for one in (loaded, reached) if isinstance(one, HalfstepError)))
    given = as_named(host, config, given_beside(overrides, card))
    return Selection(loaded, reached, given, data_typed=names_data(overrides))


def _or_why_not(load: Callable[[], T]) -> T | HalfstepError:
    try:
        return load()
    except HalfstepError as error:
        return error


def _both(first: HalfstepError, *more: HalfstepError) -> HalfstepError:
    """What is wrong with config and host is told at once."""
    if not more:
        return first
    findings = tuple(finding for error in (first, *more) for finding in findings_of(error))
    return BadConfig(f"{len(findings)} problems", findings=findings)


@contextlib.contextmanager
def exclusive_lock(named: Selection, doing: str, *, sign: bool = True) -> Iterator[Lock]:
    """No other verb changes this config's host until the end of the block. Raises Busy."""
    records = Records(named.loaded.root)
    records.prepare()
    with locked(records.lock(named.host.name, named.loaded.name), doing, sign=sign) as lock:
        yield lock


@contextlib.contextmanager
def host_session(
    named: Selection, listener: Listener, wishes: RunOptions, *, keep: bool = True, ask: Prompter | None = None
) -> Iterator[Context]:
    """A context with its first view: the project is read here while the connection is made."""
    require_data_consent(named.loaded, ask, typed=named.data_typed)
    records = Records(named.loaded.root)
    if named.host.note:
        listener.note(named.host.note)
    with connected(named.host, keep=keep, ask=ask) as host, ThreadPoolExecutor(1) as pool:
        local = pool.submit(_local_facts, named.loaded, records, must_keep=keep)
        listener.progress(f"connecting to {named.host.name}")
        survey = survey_host(host, named.host, project_of(named.loaded.root))
        seen_unix = time.time()
        scan, data = local.result()
        cures = read_cures(records.cures(named.host.name, named.loaded.name), named.loaded.as_json())
        view = View(
            named.loaded,
            named.host,
            records,
            scan,
            survey,
            host.workdir,
            data,
            cures=cures,
            given=named.given,
            seen_unix=seen_unix,
        )
        yield Context(host, view, listener, wishes)


def look_again(context: Context) -> None:
    """The context's view is of this moment."""
    view = context.view
    context.view = view.with_survey(survey_host(context.host, view.host, view.layout.key), time.time())


def _local_facts(loaded: LoadedConfig, records: Records, *, must_keep: bool) -> tuple[Scan, DataScan | None]:
    """The project's files and data as they lie here. What is only looked at may be where nothing can be written."""
    try:
        records.prepare()
    except HalfstepError:
        if must_keep:
            raise
    folder = data_folder(loaded)
    return scan_project(loaded.root, apart=data_name(loaded)), scan_data(folder, records.folder) if folder else None
