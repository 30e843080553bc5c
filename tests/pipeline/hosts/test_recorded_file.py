"""SE: a recorded host that DNS resolves to the laptop needs the confirmation that its host file would need."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.hosts.connection import connected
from pipeline.hosts.trust import keep_trust
from pipeline.records.host_trust import HostTrust
from remote.errors import HostFileUntrusted
from tests.lab.answers import Person
from tests.lab.sshd import Sshd, login_name
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.cloned_notes import RUN
from tests.pipeline.hosts.own_notes import reaches, recorded, users

__all__ = ["users"]

RENTED = "gpu.rented.example"
VERBS = ["status", "wait", "pull", "pull --weights", "logs", "tail", "attach", "stop", "evaluate", "merge", "report"]


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the name server answer that the rented machine is this machine."""
    resolve, found = socket.getaddrinfo, {RENTED: "127.0.0.1"}
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: resolve(found.get(host.decode(), host), *rest, **more)
    )


def settings(server: Sshd) -> list[str]:
    found = [f"port: {server.port}", f"host_key: {server.fingerprint()}", f"user: {login_name()}"]
    return [*found, f"identity_file: {server.user_key}", f"workdir: {server.home}/halfstep"]


def of_file(server: Sshd) -> LoadedHost:
    write(Path.cwd(), "\n".join([f"host: {RENTED}", *settings(server), ""]), "hosts/rig")
    return load_host("rig", Path.cwd())


@pytest.mark.parametrize("verb", VERBS)
def test_SE_no_verb_with_a_run_logs_in_if_the_recorded_name_leads_to_the_laptop_now(
    verb: str, sshd: Sshd, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path.cwd(), "command: python train.py\n", "plain")
    Path("train.py").touch()
    recorded(of_file(sshd))
    run([*verb.split(), RUN, "--json"])
    assert f"reaches the local machine as {RENTED}" in "".join(capsys.readouterr())
    assert "Accepted" not in sshd.log


def test_SE_a_recorded_name_is_confirmed_at_a_terminal_once(sshd: Sshd) -> None:
    host = of_file(sshd)
    found, person = recorded(host), Person(yes=True)
    for nobody in (None, Person(yes=False)):
        with pytest.raises(HostFileUntrusted, match=RENTED) as caught:
            reaches(found, nobody)
    assert caught.value.hint.endswith(f"pipeline status {RUN}") and "Accepted" not in sshd.log
    assert reaches(found, person) and reaches(found, None)
    (question,) = person.questions
    assert str(host.path) in question and RENTED in question
    (Path.cwd() / "configs/hosts/rig.yaml").unlink()
    assert reaches(found, None), "the confirmation is valid for the recorded settings"


@pytest.mark.parametrize("how", ["with run", "every reason"])
def test_a_host_file_that_was_confirmed_before_the_run_needs_no_question(how: str, sshd: Sshd) -> None:
    host = of_file(sshd)
    if how == "with run":
        with connected(host, keep=False, prompter=Person(yes=True)) as link:
            link.probe(["true"])
    else:
        keep_trust(host)
    assert reaches(recorded(host))


def test_a_recorded_name_that_the_user_typed_needs_no_confirmation(sshd: Sshd) -> None:
    host = load_host(RENTED, Path.cwd(), [f"host.{each.replace(': ', '=', 1)}" for each in settings(sshd)])
    assert reaches(recorded(host))


def test_SE_the_name_in_a_record_of_an_older_version_is_refused(sshd: Sshd) -> None:
    found = replace(recorded(of_file(sshd)), trust=HostTrust())
    person = Person(yes=True)
    with pytest.raises(HostFileUntrusted, match=RENTED) as caught:
        reaches(found, person)
    assert f"--resume {RUN}" in caught.value.hint and not person.questions and "Accepted" not in sshd.log
