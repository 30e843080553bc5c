"""Refuse to send what the user typed for one machine to the machine that the host file names now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.config.overrides import HOST_PREFIX, host_overrides, parse_override
from pipeline.hosts.new_names import line_of
from pipeline.hosts.pinned_keys import destination_of
from pipeline.messages.hints import overrides_in
from pipeline.records.find_run import find_note, named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note, recorded_runs
from pipeline.runs.selection import DATA_PATH, PROJECT, SECRETS, Selection, is_set
from remote.errors import HostFileUntrusted
from remote.link.prompter import Prompter, confirms

TYPED = (PROJECT, DATA_PATH, SECRETS)
"""The settings of a config that need no confirmation if the user typed them."""
NOTHING_SENT = "; nothing was sent"


def require_same_machines(run: str, hosts: Sequence[LoadedHost], overrides: Sequence[str], cwd: Path) -> None:
    """Raise HostFileUntrusted if recorded options select what is sent, and a host is not that of the record any more.

    `overrides` are the `--set` options in the record of the run. What the user typed is valid for the machine that the
    host file named then: `git pull` may have changed the file.
    """
    if sent := _sent(overrides):
        note, records = named_run(run, cwd)
        if moved := _moved(note, records, hosts):
            raise _refused(moved, sent, note.resume_command)


def require_choices_again(
    run: str, selections: Sequence[Selection], records: Records, prompter: Prompter | None
) -> None:
    """Ask whether what the options select may be sent to a host that is not that of the record any more.

    The user may have pasted a command that halfstep printed for the recorded machine, or repeated it from the history
    of the shell. `run` is the resumed run. If it is "", each host is compared with that of its last run with such
    options, and only at a terminal: a script names its machine each time. A host without a file of the project is the
    user's own choice. Raises HostFileUntrusted.
    """
    sent = _sent([option for one in selections for option in _options(one.given)])
    if not sent or not (run or (prompter is not None and prompter.can_confirm())):
        return
    hosts = [one.host for one in selections if line_of(one.host)]
    if run:
        note: RunNote | None = find_note(records, run, trained=True)
        moved = _moved(note, records, hosts) if note else None
    else:
        note, moved = _moved_since_last(records, hosts)
    if note is None or moved is None:
        return
    refused = _refused(moved, sent, note.start_command)
    subject = refused.message.removesuffix(NOTHING_SENT)
    if not confirms(prompter, subject, "May it be sent to this machine?"):
        raise refused


def _moved_since_last(records: Records, hosts: Sequence[LoadedHost]) -> tuple[RunNote | None, LoadedHost | None]:
    """Return the first host that is not that of its last run with options that select what is sent, and the run."""
    runs = [one for one in recorded_runs(records).notes if one.own and _sent(_options(one.given))] if hosts else []
    for host in hosts:
        last = next((one for one in runs if one.host == host.name), None)
        if last is not None and (moved := _moved(last, records, [host])):
            return last, moved
    return None, None


def _options(given: Sequence[str]) -> list[str]:
    """Return the values of `--set` among recorded arguments."""
    return [following for word, following in pairwise(overrides_in(given)) if word == "--set"]


def _sent(overrides: Sequence[str]) -> str:
    """Return the names of the settings among `overrides` that select what is sent."""
    typed = [".".join(key) for key in TYPED if is_set(key, overrides)]
    if any(parse_override(one, HOST_PREFIX).covers(SECRETS) for one in host_overrides(overrides)):
        typed.append("host.secrets")
    return ", ".join(typed)


def _moved(note: RunNote, records: Records, hosts: Sequence[LoadedHost]) -> LoadedHost | None:
    """Return the first host that is not the machine, account or host key of the run's record, or None."""
    for host in hosts:
        known = read_note(records.run(note.run, host.name))
        if known is None or not known.own or known.trust.destination != destination_of(host):
            return host
    return None


def _refused(host: LoadedHost, sent: str, hint: str) -> HostFileUntrusted:
    return HostFileUntrusted(
        f"{host.name} ({host.config.host}) is not the machine, account or host key for which you typed {sent}"
        f"{NOTHING_SENT}",
        where=str(host.path or host.name),
        hint=hint,
    )
