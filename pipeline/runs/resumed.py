"""Refuse to send what the user typed for one machine to the machine that the host file names now."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.config.overrides import HOST_PREFIX, host_overrides, parse_override
from pipeline.hosts.new_names import line_of
from pipeline.hosts.pinned_keys import destination_of
from pipeline.messages.hints import overrides_in
from pipeline.records.consents import has_consent, is_confirmed, keep_consent
from pipeline.records.find_run import find_note, named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note
from pipeline.runs.selection import DATA_PATH, PROJECT, SECRETS, Selection, is_set
from remote.errors import BadUsage, DiskFull, HostFileUntrusted
from remote.link.prompter import Prompter, at_terminal, confirms
from remote.project.user_folder import user_file
from remote.protocol.shell import command_line

TYPED = (PROJECT, DATA_PATH, SECRETS)
"""The settings of a config that need no confirmation if the user typed them."""
NOTHING_SENT = "; nothing was sent"
KEPT = "typed_for"
"""The user's file with the machines for which such settings were typed, by the name of the host."""


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

    The user may have pasted a command that halfstep printed for the recorded machine. A host without a file of the
    project is the user's own choice. Raises HostFileUntrusted.
    """
    if sent := _sent([option for one in selections for option in _options(one.given)]):
        note = find_note(records, run, trained=True)
        if moved := _moved(note, records, [one.host for one in selections if line_of(one.host)]):
            _confirm(moved, sent, note.start_command, prompter)


def require_typed_again(selection: Selection, prompter: Prompter | None, *others: str) -> None:
    """Ask whether what the options select may be sent, if the name of the host selected another machine before.

    The user may have repeated a command. `others` are further options that select what is sent. The first machine of
    the name, and each that the user confirms or names without a file of the project, is stored in the user's
    configuration folder: neither another path of the host file nor another project counts as a first use. A script
    without a terminal may name another machine each time. Raises HostFileUntrusted.
    """
    sent = ", ".join(filter(None, (_sent(_options(selection.given)), *others)))
    host = selection.host
    if not sent:
        return
    kept, destination = user_file(KEPT, os.environ), destination_of(host)
    if is_confirmed(kept, host.name, destination):
        return
    if not line_of(host) or not has_consent(kept, host.name):
        with contextlib.suppress(BadUsage, DiskFull):
            keep_consent(kept, host.name, destination)
    elif at_terminal():
        _confirm(host, sent, command_line(["pipeline", "run", *selection.given]), prompter)


def _confirm(host: LoadedHost, sent: str, command: str, prompter: Prompter | None) -> None:
    refused = _refused(host, sent, command)
    if not confirms(prompter, refused.message.removesuffix(NOTHING_SENT), "May it be sent to this machine?"):
        raise refused
    keep_consent(user_file(KEPT, os.environ), host.name, destination_of(host))


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
