"""Refuse to send what the user typed for one machine to the machine that the host file names now."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.new_names import line_of
from pipeline.hosts.pinned_keys import destination_of
from pipeline.hosts.trust import is_own_name
from pipeline.records.find_run import find_note, named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note
from pipeline.runs.selection import Selection
from pipeline.runs.typed_choices import Use, keep_uses, options_in, settings_typed, unexpected, uses_of
from remote.errors import BadUsage, DiskFull, HalfstepError, HostFileUntrusted
from remote.link.prompter import Prompter, at_terminal, confirms
from remote.protocol.shell import command_line

NOTHING_SENT = "; nothing was sent"


def require_same_machines(run: str, hosts: Sequence[LoadedHost], overrides: Sequence[str], cwd: Path) -> None:
    """Raise HostFileUntrusted if recorded options select what is sent, and a host is not that of the record any more.

    `overrides` are the `--set` options in the record of the run. What the user typed is valid for the machine that the
    host file named then: `git pull` may have changed the file.
    """
    if sent := ", ".join(settings_typed(overrides)):
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
    if sent := ", ".join(settings_typed([option for one in selections for option in options_in(one.given)])):
        note = find_note(records, run, trained=True)
        if moved := _moved(note, records, [one.host for one in selections if line_of(one.host)]):
            _confirm(moved, sent, note.start_command, prompter)
            for one in selections:
                if one.host is moved:
                    _agree(one, uses_of(one))


def require_typed_again(selection: Selection, prompter: Prompter | None, adapter: str = "") -> None:
    """Ask whether what the options select may be sent, if it was typed for another machine, see `unexpected`.

    The user may have repeated a command. `adapter` is the folder of `evaluate --adapter`. A first use, and each machine
    that the user confirms or names without a file of the project, is stored by `keep_agreed`. A script without a
    terminal may name another machine each time. Raises HostFileUntrusted.
    """
    uses, host = uses_of(selection, adapter), selection.host
    if selection.agreed.issuperset(one.fields for one in uses):
        return
    changed = unexpected(uses, selection.together)
    asked = [one for one in changed if one.asks]
    if not asked:
        _agree(selection, [one for one in uses if one not in changed])
    elif not line_of(host) or _is_own_name(host):
        _agree(selection, uses)
    elif at_terminal():
        sent = ", ".join(one.name for one in asked)
        _confirm(host, sent, command_line(["pipeline", "run", *selection.given]), prompter)
        _agree(selection, uses)


def keep_agreed(selection: Selection) -> None:
    """Store in the user's configuration folder for which machine the options were typed.

    This is done only when the user has confirmed everything of the command, and the host was reached: a machine that
    the user then refuses must not count as known.
    """
    with contextlib.suppress(BadUsage, DiskFull):
        keep_uses(sorted(selection.agreed))


def _agree(selection: Selection, uses: Iterable[Use]) -> None:
    selection.agreed.update(one.fields for one in uses)


def _is_own_name(host: LoadedHost) -> bool:
    try:
        return is_own_name(host)
    except HalfstepError:  # ssh cannot resolve the name
        return False


def _confirm(host: LoadedHost, sent: str, command: str, prompter: Prompter | None) -> None:
    refused = _refused(host, sent, command)
    if not confirms(prompter, refused.message.removesuffix(NOTHING_SENT), "May it be sent to this machine?"):
        raise refused


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
