"""The user's own record of a run on a host, as a later command finds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.open_run import open_note
from pipeline.hosts.recorded_trust import trust_in
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from remote.link.prompter import Prompter
from remote.project.identity import project_of
from remote.protocol.jobs import JobState
from tests.pipeline.hosts.cloned_notes import RUN, note


@pytest.fixture(autouse=True)
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the known_hosts that ssh reads for every host. The project is the current folder."""
    (tmp_path / "config").write_text(f'Host *\n  UserKnownHostsFile "{tmp_path}/users"\n')
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "users"


def recorded(host: LoadedHost) -> RunNote:
    """Write the record of a run on the host. Return it as a later command reads it."""
    records, one = Records(Path.cwd()), note(host=host.config.model_dump(mode="json"))
    one = replace(one, host=host.name, project=project_of(Path.cwd()), trust=trust_in(host))
    write_note(records, replace(one, state=JobState.RUNNING, seen_unix=1.0))
    return find_note(records, RUN)


def reaches(found: RunNote, prompter: Prompter | None = None) -> bool:
    """Return True if the recorded host runs a command."""
    with open_note(found, Records(Path.cwd()), prompter=prompter) as opened:
        return opened.host.probe(["true"]).ok
