"""SE: what was typed for a run is not sent to the machine that the project's host file names now."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from pipeline.hosts.recorded_trust import trust_in
from pipeline.records.host_trust import HostTrust
from pipeline.records.layout import Records
from pipeline.records.runs import write_note
from pipeline.runs import resumed
from pipeline.runs.resumed import keep_agreed, require_choices_again, require_same_machines, require_typed_again
from pipeline.runs.selection import load_selection, load_selections
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
    for one in selections:
        keep_agreed(one)


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


def require_repeated(prompter: Person | None, *overrides: str, host: str = "rig", adapter: str = "") -> None:
    """Check a command with typed settings, such as the one that `stop` prints for a run without a checkpoint."""
    selection = load_selection(host, "plain", overrides, Path.cwd())
    require_typed_again(selection, prompter, adapter)
    keep_agreed(selection)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumed, "at_terminal", lambda: True)


@pytest.fixture
def moved_host(tmp_path: Path) -> Callable[[], None]:
    """Return a function that lets the host file name another machine, as `git pull` may do."""
    return lambda: write(tmp_path, "host: evil.example\n", "hosts/rig") and None


@pytest.mark.parametrize("sent", SENT)
def test_SE_a_repeated_command_asks_before_it_sends_to_another_machine(
    sent: str, terminal: None, moved_host: Callable[[], None], tmp_path: Path
) -> None:
    for name in ("other", "private"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").touch()
    sent = sent.replace("~", str(tmp_path))
    for _ in range(2):
        require_repeated(Person(yes=False), sent)  # the first machine is the one for which it was typed
    moved_host()
    for nobody in (None, Person(yes=False)):  # None: --json
        with pytest.raises(HostFileUntrusted, match=r"rig \(evil\.example\) is not the machine.*typed") as caught:
            require_repeated(nobody, sent)
    assert caught.value.hint.startswith("pipeline run --host rig --config plain --set")
    asked = Person(yes=False)
    require_repeated(asked, "host.gpus=[0]")
    assert not asked.questions
    person = Person(yes=True)
    for _ in range(2):
        require_repeated(person, sent)
    assert len(person.questions) == 1 and "nothing was sent" not in person.questions[0]


def test_a_script_without_a_terminal_may_name_another_machine_each_time(moved_host: Callable[[], None]) -> None:
    require_repeated(None, SENT[0])
    moved_host()
    require_repeated(None, SENT[0])


def test_SE_a_machine_that_a_script_used_is_asked_about_at_a_terminal(
    moved_host: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_repeated(None, SENT[0])
    moved_host()
    require_repeated(None, SENT[0])
    monkeypatch.setattr(resumed, "at_terminal", lambda: True)
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require_repeated(Person(yes=False), SENT[0])


def test_SE_neither_records_nor_project_of_the_config_decide(
    terminal: None, moved_host: Callable[[], None], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / ".halfstep")
    require_repeated(Person(yes=False), SENT[0])
    moved_host()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train.py").touch()
    write(tmp_path, "project: sub\ncommand: python train.py\n", "plain")
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require_repeated(Person(yes=False), SENT[0])


@pytest.mark.parametrize("place", ["configs/hosts/rig.yml", "sub/configs/hosts/rig.yaml", "rig.yaml"])
def test_SE_a_host_file_at_another_path_is_no_first_use(
    place: str, terminal: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_repeated(Person(yes=False), SENT[0])
    (tmp_path / "configs/hosts/rig.yaml").unlink()
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("host: evil.example\n")
    if place.startswith("sub"):
        write(tmp_path / "sub", "command: python train.py\n", "plain")
        (tmp_path / "sub/train.py").touch()
        monkeypatch.chdir(tmp_path / "sub")
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require_repeated(Person(yes=False), SENT[0], host=str(file) if place == "rig.yaml" else "rig")


def test_SE_a_file_that_appears_for_a_name_of_the_user_is_asked_about(terminal: None, tmp_path: Path) -> None:
    (tmp_path / "configs/hosts/rig.yaml").unlink()
    require_repeated(Person(yes=False), SENT[0])
    write(tmp_path, "host: evil.example\n", "hosts/rig")
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        require_repeated(Person(yes=False), SENT[0])


def test_SE_an_adapter_of_the_user_counts_as_typed(terminal: None, moved_host: Callable[[], None]) -> None:
    require_repeated(Person(yes=False), adapter="/adapter")
    moved_host()
    with pytest.raises(HostFileUntrusted, match="typed --adapter"):
        require_repeated(Person(yes=False), adapter="/adapter")


def test_a_configuration_folder_that_cannot_be_written_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "/proc/none")
    require_repeated(None, SENT[0])


def test_a_host_that_no_file_of_the_project_names_needs_no_confirmation(terminal: None, tmp_path: Path) -> None:
    (tmp_path / "configs/hosts/rig.yaml").unlink()
    for host in ("one.example", "two.example"):
        require_repeated(Person(yes=False), SENT[0], host=host)


def test_a_resumed_run_on_a_confirmed_machine_asks_once(
    terminal: None, recorded: HostTrust, moved_host: Callable[[], None]
) -> None:
    record(recorded, SENT[0])
    require_repeated(None, SENT[0])
    moved_host()
    person = Person(yes=True)
    require_pasted(person, SENT[0])
    require_repeated(person, SENT[0])
    assert len(person.questions) == 1


@pytest.mark.parametrize("verb", [["verify"], ["run"], ["run", "--until", "sync"], ["run", "--yes"], ["run", "--json"]])
def test_SE_every_verb_refuses_another_machine_than_the_first(
    verb: list[str], terminal: None, moved_host: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    require_repeated(None, SENT[0])
    moved_host()
    assert run([verb[0], "--host", "rig", "--config", "plain", "--set", SENT[0], *verb[1:]]) == ExitCode.HOST_KEY
    assert "for which you typed secrets" in " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize("values", ["train.seed=1,2"])
def test_SE_several_runs_of_one_command_are_refused_together(
    values: str, terminal: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], moved_host: Callable[[], None]
) -> None:
    write(tmp_path, "command: python train.py --seed {train.seed}\ntrain: {seed: 1}\n", "plain")
    require_repeated(None, SENT[0])
    moved_host()
    words = ["--host", "rig", "--config", "plain", "--set", SENT[0], "--set", values]
    assert run(["run", *words]) == ExitCode.HOST_KEY
    assert "for which you typed secrets" in " ".join("".join(capsys.readouterr()).split())
