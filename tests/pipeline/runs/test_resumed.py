"""SE: what was typed for a run is not sent to the machine that the project's host file names now."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from pipeline.hosts.recorded_trust import trust_in
from pipeline.records.host_trust import HostTrust
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import write_note
from pipeline.runs.resumed import require_choices_again, require_same_machines
from pipeline.runs.selection import load_selections
from remote.errors import HostFileUntrusted
from remote.project.identity import project_of
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.lab.sshd import Sshd, login_name, make_key
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.cloned_notes import RUN, note
from tests.remote.link.ssh.refused_keys import attempts

SENT = ["secrets=[MY_TOKEN]", "data={path: ~/private}", "data.path=~/private", "project=~/other", "host.secrets=[T]"]


def server_key(folder: Path) -> str:
    key = Path(f"{make_key(folder)}.pub").read_text().split()
    return f"titan.example {key[0]} {key[1]}\n"


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostTrust:
    """A run on the machine that the host file names, and the trust in the run's record."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kh").write_text(server_key(tmp_path / "first"))
    write(tmp_path, "command: python train.py\n", "plain")
    write(tmp_path, f"host: titan.example\nknown_hosts: {tmp_path}/kh\n", "hosts/rig")
    (tmp_path / "train.py").touch()
    record(trust_in(load_host("rig", tmp_path)))
    return trust_in(load_host("rig", tmp_path))


def record(trust: HostTrust, *overrides: str) -> None:
    options = [word for one in overrides for word in ("--set", one)]
    one = replace(note(), project=project_of(Path.cwd()), trust=trust)
    write_note(Records(Path.cwd()), replace(one, given=("--host", "rig", "--config", "plain", *options)))


def require(*overrides: str) -> None:
    require_same_machines(RUN, [load_host("rig", Path.cwd())], overrides, Path.cwd())


@pytest.mark.parametrize("sent", SENT)
def test_SE_a_typed_setting_is_valid_only_for_the_machine_of_the_record(sent: str, tmp_path: Path) -> None:
    require(sent)
    file = tmp_path / "configs/hosts/rig.yaml"
    before = file.read_text()
    for changed in (
        f"{before}user: other\n",
        before.replace("titan", "evil"),
        f"{before}host_key: SHA256:{'x' * 43}\n",
    ):
        file.write_text(changed)
        with pytest.raises(HostFileUntrusted, match="is not the machine"):
            require(sent)
        require("train.seed=1", "host.gpus=[0]")
    file.write_text(f"# a comment\n{before}gpus: [0]\n")
    require(sent)
    (tmp_path / "kh").write_text(server_key(tmp_path / "second"))
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require(sent)


def test_SE_a_typed_setting_in_a_record_of_an_older_version_is_not_sent(recorded: HostTrust) -> None:
    record(replace(recorded, destination=""))
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require("secrets=[MY_TOKEN]")


def test_SE_every_host_of_a_group_must_be_the_recorded_one(tmp_path: Path) -> None:
    write(tmp_path, "host: evil.example\n", "hosts/second")
    hosts = [load_host(name, tmp_path) for name in ("rig", "second")]
    with pytest.raises(HostFileUntrusted, match="second"):
        require_same_machines(RUN, hosts, ["secrets=[MY_TOKEN]"], tmp_path)


@pytest.mark.parametrize("sent", SENT[:1])
def test_SE_a_resumed_run_does_not_connect_to_another_machine_with_typed_secrets(
    sent: str, recorded: HostTrust, sshd: Sshd, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(recorded, sent)
    lines = [f"host: {sshd.listen}", f"port: {sshd.port}", f"host_key: {sshd.fingerprint()}", f"user: {login_name()}"]
    write(tmp_path, "\n".join([*lines, f"identity_file: {sshd.user_key}", ""]), "hosts/rig")
    assert run(["run", "--resume", RUN, "--json"]) == ExitCode.HOST_KEY
    answer = "".join(capsys.readouterr())
    assert f"for which you typed {sent.partition('=')[0]}" in answer and f"--set '{sent}' --resume {RUN}" in answer
    assert attempts(sshd) == []


def require_pasted(prompter: Person | None, *overrides: str, host: str = "rig") -> None:
    """Check the command that halfstep printed for resuming the run, as the user pasted it."""
    selections = load_selections([host], "plain", overrides, Path.cwd())
    require_choices_again(RUN, selections, Records(Path.cwd()), prompter)


@pytest.mark.parametrize("sent", SENT)
def test_SE_a_pasted_command_sends_what_it_names_only_to_the_machine_of_the_record(sent: str, tmp_path: Path) -> None:
    for name in ("other", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").touch()
    sent = sent.replace("~", str(tmp_path))
    require_pasted(None, sent)
    file = tmp_path / "configs/hosts/rig.yaml"
    file.write_text(file.read_text().replace("titan", "evil"))
    for nobody in (None, Person(yes=False)):
        with pytest.raises(HostFileUntrusted, match=r"rig \(evil\.example\) is not the machine.*typed") as caught:
            require_pasted(nobody, sent)
    assert "--resume" not in caught.value.hint and "pipeline run --host rig" in caught.value.hint
    person = Person(yes=True)
    require_pasted(person, sent)
    assert len(person.questions) == 1 and "nothing was sent" not in person.questions[0]
    require_pasted(None, "host.gpus=[0]")


def test_a_machine_that_no_file_of_the_project_names_is_the_choice_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "configs/hosts/rig.yaml").unlink()
    require_pasted(None, "secrets=[MY_TOKEN]")


def test_SE_a_pasted_command_without_a_terminal_ends_before_the_run_begins(
    recorded: HostTrust, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(recorded, SENT[0])
    write(tmp_path, "host: 127.0.0.1\nport: 9\n", "hosts/rig")
    pasted = ["run", "--host", "rig", "--config", "plain", "--set", SENT[0], "--resume", RUN]
    assert run([*pasted, "--json"]) == ExitCode.HOST_KEY
    assert "for which you typed secrets" in "".join(capsys.readouterr())


def require_repeated(prompter: Person | None, *overrides: str, hosts: tuple[str, ...] = ("rig",)) -> None:
    """Check a command without --resume, such as the one that `stop` prints for a run without a checkpoint."""
    selections = load_selections(hosts, "plain", overrides, Path.cwd())
    require_choices_again("", selections, Records(Path.cwd()), prompter)


@pytest.mark.parametrize("sent", SENT)
def test_SE_a_repeated_command_asks_before_it_sends_to_another_machine(
    sent: str, recorded: HostTrust, tmp_path: Path
) -> None:
    for name in ("other", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").touch()
    sent = sent.replace("~", str(tmp_path))
    record(recorded, sent)
    require_repeated(Person(yes=False), sent)
    file = tmp_path / "configs/hosts/rig.yaml"
    file.write_text(file.read_text().replace("titan", "evil"))
    nobody = Person(yes=False)
    with pytest.raises(HostFileUntrusted, match=r"rig \(evil\.example\) is not the machine.*typed") as caught:
        require_repeated(nobody, sent)
    assert len(nobody.questions) == 1 and "--resume" not in caught.value.hint
    require_repeated(Person(yes=True), sent)
    require_repeated(None, sent)  # a script may name another machine each time
    unasked = Person(yes=False)
    require_repeated(unasked, "host.gpus=[0]")
    assert not unasked.questions


def test_SE_each_host_of_a_repeated_command_is_compared_with_its_own_last_run(
    recorded: HostTrust, tmp_path: Path
) -> None:
    record(recorded, SENT[0])
    write(tmp_path, "host: new.example\n", "hosts/second")
    require_repeated(Person(yes=False), SENT[0], hosts=("second", "rig"))
    write(tmp_path, "host: evil.example\n", "hosts/rig")
    with pytest.raises(HostFileUntrusted, match=r"rig \(evil"):
        require_repeated(Person(yes=False), SENT[0], hosts=("second", "rig"))


def test_a_first_choice_and_the_record_of_another_user_ask_nothing(recorded: HostTrust, tmp_path: Path) -> None:
    write(tmp_path, "host: evil.example\n", "hosts/rig")
    require_repeated(Person(yes=False), SENT[0])  # the run of the record was started without such options
    record(recorded, SENT[0])
    folder = Records(tmp_path).run(RUN, "rig")
    body = json.loads((folder / NOTE).read_bytes())
    (folder / NOTE).write_text(json.dumps({**body, "seal": "0" * 64}))
    require_repeated(Person(yes=False), SENT[0])


@pytest.mark.parametrize("verb", [["run"], ["verify"], ["run", "--set", "train.seed=1,2"]])
def test_SE_a_typed_secret_is_not_sent_to_another_machine_by_any_verb_at_a_terminal(
    verb: list[str],
    recorded: HostTrust,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(recorded, SENT[0])
    write(tmp_path, "host: 127.0.0.1\nport: 9\n", "hosts/rig")
    asked: list[str] = []
    monkeypatch.setattr("pipeline.show.screen.Screen.can_confirm", lambda _: True)
    monkeypatch.setattr("pipeline.show.screen.Screen.confirm", lambda _, question: bool(asked.append(question)))
    write(tmp_path, "command: python train.py --seed {train.seed}\ntrain: {seed: 1}\n", "plain")
    assert run([verb[0], "--host", "rig", "--config", "plain", "--set", SENT[0], *verb[1:]]) == ExitCode.HOST_KEY
    assert "for which you typed secrets" in asked[-1] and "nothing was sent" in "".join(capsys.readouterr())
