"""The session of a verb with a host: lock, connection and surveys."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pipeline.config.load import LoadedConfig
from pipeline.hosts.connection import survey_host
from pipeline.hosts.pending import PendingHost
from pipeline.messages.listener import Listener
from pipeline.records.files import Lock, locked
from pipeline.records.kept_cures import read_cures
from pipeline.records.layout import Records
from pipeline.runs.consent import require_data_consent, require_project_consent, require_secret_consent
from pipeline.runs.resumed import keep_agreed, require_typed_again
from pipeline.runs.selection import Selection
from pipeline.runs.view import View, data_folder, data_name
from pipeline.stages.stage import Context, RunOptions
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.project.data import DataScan, scan_data
from remote.project.identity import project_of
from remote.project.scan import Scan, scan_project


@contextlib.contextmanager
def exclusive_lock(selection: Selection, doing: str, *, prompter: Prompter | None, sign: bool = True) -> Iterator[Lock]:
    """Lock the config's host against changes by other verbs until the end of the block. Raises Busy.

    Creating the lock writes to the folder that `project:` names, so the user must confirm secrets and files first.
    """
    require_consents(selection, prompter)
    records = Records(selection.loaded.root)
    records.prepare()
    with locked(records.lock(selection.host.name, selection.loaded.record), doing, sign=sign) as lock:
        yield lock


def require_consents(selection: Selection, prompter: Prompter | None) -> tuple[Path, ...] | None:
    """Ask the user to confirm the secrets and files that the config takes from the laptop.

    Return the folders from which data may be read, or None for all. Raises DataUntrusted, HostFileUntrusted,
    SecretsUntrusted.
    """
    require_typed_again(selection, prompter)
    require_project_consent(selection.loaded, prompter, typed=selection.project_typed, host=selection.host)
    confirmed = require_data_consent(selection.loaded, prompter, typed=selection.data_typed, host=selection.host)
    require_secret_consent(selection.loaded, prompter, typed=selection.secrets_typed, host=selection.host)
    return confirmed


@contextlib.contextmanager
def host_session(
    selection: Selection,
    listener: Listener,
    options: RunOptions,
    *,
    keep: bool = True,
    prompter: Prompter | None = None,
    pending: PendingHost | None = None,
) -> Iterator[Context]:
    """Yield a context with its first view. The project is read while halfstep connects to the host and surveys it.

    `pending` is a connection that is already being opened.
    """
    confirmed = require_consents(selection, prompter)
    records = Records(selection.loaded.root)
    if selection.host.note:
        listener.note(selection.host.note)
    with pending or PendingHost(
        selection.host, project_of(selection.loaded.root), keep=keep, may_prompt=prompter is not None
    ) as connecting:
        listener.progress(f"connecting to {selection.host.name}")
        scan, data = _local_facts(selection.loaded, records, confirmed, must_keep=keep)
        cures = read_cures(records.cures(selection.host.name, selection.loaded.record), selection.loaded.as_json())
        host, survey, seen_unix = connecting.result(prompter)
        view = View(
            selection.loaded,
            selection.host,
            records,
            scan,
            survey,
            host.workdir,
            data,
            resume=options.resume,
            cures=cures,
            given=selection.given,
            seen_unix=seen_unix,
        )
        if cures:
            require_consents(replace(selection, loaded=replace(selection.loaded, config=view.config)), prompter)
        keep_agreed(selection)
        yield Context(host, view, listener, options)


def refresh_view(context: Context) -> None:
    """Survey the host again and update the context's view."""
    view = context.view
    context.view = view.with_survey(survey_host(context.host, view.host, view.layout.key), time.time())


def _local_facts(
    loaded: LoadedConfig, records: Records, confirmed: tuple[Path, ...] | None, *, must_keep: bool
) -> tuple[Scan, DataScan | None]:
    """Scan the local project and its data (None without data).

    If `must_keep` is False, a project folder that cannot be written is accepted.
    """
    try:
        records.prepare()
    except HalfstepError:
        if must_keep:
            raise
    folder, scan = data_folder(loaded), scan_project(loaded.root, data_link=data_name(loaded))
    return scan, scan_data(folder, records.folder, confirmed=confirmed) if folder else None
