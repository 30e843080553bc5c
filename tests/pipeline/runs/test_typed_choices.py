"""SE: an option that selects what is sent is remembered with the machine for which the user typed it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from io import StringIO
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.messages.hints import CHOICES, without_choices
from pipeline.runs import resumed
from pipeline.runs.resumed import keep_agreed, require_typed_again
from pipeline.runs.selection import load_selections
from pipeline.runs.typed_choices import HOST_SECRETS, KEPT, TYPED, settings_typed
from pipeline.show.failure import show_error, with_corrected_hint
from remote.errors import HostFileUntrusted, NameUnknown
from remote.link.prompter import at_terminal
from remote.project.user_folder import user_file
from tests.lab.answers import Person

ONE, TWO, THREE = "one.example", "two.example", "three.example"
SECRETS = "secrets=[MY_TOKEN]"


class Terminal(StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of two projects `a` and `b`, and of the data that the user types, at a terminal."""
    for name in ("a", "b"):
        (tmp_path / name / "configs/hosts").mkdir(parents=True)
        (tmp_path / name / "configs/t.yaml").write_text("command: [python, train.py]\n")
        (tmp_path / name / "train.py").touch()
    for name in ("toy", "private"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(resumed, "at_terminal", lambda: True)
    return tmp_path


def host(project: Path, name: str, machine: str) -> None:
    (project / f"configs/hosts/{name}.yaml").write_text(f"host: {machine}\n")


def questions(project: Path, name: str, *overrides: str, yes: bool = True, config: str = "t") -> list[str]:
    """Repeat a command in the project, and return the questions."""
    person, every = Person(yes=yes), load_selections(name.split(","), config, overrides, project)
    for one in every:
        require_typed_again(one, person)
        keep_agreed(one)
    return person.questions


def data(projects: Path, name: str = "private") -> str:
    return f"data.path={projects / name}"


def test_SE_what_was_typed_in_one_project_permits_no_machine_in_another(projects: Path) -> None:
    a, b = projects / "a", projects / "b"
    host(a, "box", TWO)
    host(b, "box", ONE)
    assert not questions(a, "box", data(projects, "toy"))
    [question] = questions(b, "box", SECRETS, data(projects))
    assert f"box ({ONE})" in question and "you typed data.path, secrets" in question
    assert not questions(b, "box", SECRETS, data(projects)) and not questions(b, "box", "secrets=[OTHER]")
    host(b, "box", TWO)
    for sent in (SECRETS, "secrets=[FRESH]"):
        with pytest.raises(HostFileUntrusted, match=rf"box \({re.escape(TWO)}\) is not the machine"):
            questions(b, "box", sent, yes=False)
    assert not questions(a, "box", data(projects, "toy"))


@pytest.mark.parametrize(("stdin", "refuses"), [(Terminal, True), (StringIO, False)])
def test_SE_no_input_at_a_terminal_sends_nothing_that_was_typed_for_another_machine(
    projects: Path, monkeypatch: pytest.MonkeyPatch, stdin: type, refuses: bool
) -> None:
    monkeypatch.setattr(resumed, "at_terminal", at_terminal)
    monkeypatch.setattr(sys, "stdin", stdin())
    host(projects / "a", "box", ONE)
    assert run(["configs", "--no-input"]) == 0
    assert not questions(projects / "a", "box", SECRETS)
    host(projects / "a", "box", TWO)
    if refuses:
        with pytest.raises(HostFileUntrusted, match="is not the machine"):
            questions(projects / "a", "box", SECRETS, yes=False)
    else:
        assert not questions(projects / "a", "box", SECRETS, yes=False)


@pytest.mark.parametrize("sent", [SECRETS, "data.path=../private", "project=../private", "host.secrets=[MY_TOKEN]"])
def test_SE_a_renamed_host_file_gets_nothing_that_was_typed_for_another_machine(projects: Path, sent: str) -> None:
    a = projects / "a"
    (projects / "private/train.py").touch()
    host(a, "gpubox", ONE)
    host(a, "gpubox1", TWO)
    assert not questions(a, "gpubox", sent)
    with pytest.raises(HostFileUntrusted, match=r"gpubox1 .* is not the machine.* for which you typed"):
        questions(a, "gpubox1", sent, yes=False)
    absolute = sent.replace("..", str(projects))
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        questions(a, "gpubox1", absolute, yes=False)
    assert len(questions(a, "gpubox1", sent)) == 1
    assert not questions(a, "gpubox1", sent) and not questions(a, "gpubox", sent)


def test_no_question_for_a_second_machine_with_other_values(projects: Path) -> None:
    a = projects / "a"
    host(a, "first", ONE)
    host(a, "second", TWO)
    assert not questions(a, "first", SECRETS)
    assert not questions(a, "second", "secrets=[OTHER]", data(projects, "toy"))
    assert not questions(a, "first", data(projects)) and not questions(a, "first", SECRETS, "data.samples=2")


def test_no_question_for_the_same_machine_in_another_project_or_under_another_name(projects: Path) -> None:
    a, b = projects / "a", projects / "b"
    for project in (a, b):
        host(project, "first", ONE)
        host(project, "second", TWO)
    assert not questions(a, "first", SECRETS)
    assert len(questions(a, "second", SECRETS)) == 1
    assert not questions(b, "first", SECRETS) and not questions(b, "second", SECRETS)
    host(a, "again", ONE)
    assert not questions(a, "again", SECRETS)


def test_no_question_for_hosts_that_one_command_names_or_for_what_stayed_on_this_machine(projects: Path) -> None:
    a = projects / "a"
    host(a, "first", ONE)
    host(a, "second", TWO)
    host(a, "third", THREE)
    assert not questions(a, "local", SECRETS)
    assert not questions(a, "first,second", SECRETS) and not questions(a, "second", SECRETS)
    assert len(questions(a, "third", SECRETS)) == 1
    host(a, "first", "evil.example")
    assert len(questions(a, "first,second", SECRETS)) == 1


@pytest.mark.parametrize("known", ["config", "known_hosts"])
def test_no_question_for_a_machine_that_the_users_own_ssh_knows_by_this_name(projects: Path, known: str) -> None:
    a, ssh = projects / "a", Path.home() / ".ssh"
    ssh.mkdir(exist_ok=True)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIHZ2K3x4hbF9xQ1cVb1oJ4sJxT0uO4m1hC4m8N7qLbA"
    lines = {"config": f"Host mine\n  HostName {TWO}\n", "known_hosts": f"mine {key}\n"}
    (ssh / known).write_text(lines[known])
    host(a, "first", ONE)
    host(a, "mine", "mine")
    assert not questions(a, "first", SECRETS) and not questions(a, "mine", SECRETS)
    host(a, "mine", "evil.example")
    with pytest.raises(HostFileUntrusted, match="is not the machine"):
        questions(a, "mine", SECRETS, yes=False)


@pytest.mark.parametrize("by_path", [False, True])
def test_SE_a_config_of_another_project_counts_as_typed(
    projects: Path, by_path: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host files come from a project `a`, as a group shares them; the config is in the user's own project `b`."""
    a, b = projects / "a", projects / "b"
    host(a, "box", ONE)
    monkeypatch.chdir(b if by_path else a)
    name = str(a / "configs/hosts/box.yaml") if by_path else "box"
    config = "t" if by_path else str(b / "configs/t.yaml")
    for _ in range(2):
        assert not questions(Path.cwd(), name, config=config)
    host(a, "box", TWO)
    with pytest.raises(HostFileUntrusted, match="for which you typed --config"):
        questions(Path.cwd(), name, config=config, yes=False)
    host(b, "box", THREE)
    assert not questions(b, "box")


def test_a_config_of_the_project_that_has_the_host_file_is_not_asked_about(projects: Path) -> None:
    for machine in (ONE, TWO):
        host(projects / "a", "box", machine)
        assert not questions(projects / "a", "box") and not questions(projects / "a", "box", config="configs/t.yaml")


def test_only_digests_are_stored(projects: Path) -> None:
    host(projects / "a", "box", f"{ONE}\nhost_key: SHA256:{'x' * 43}")
    questions(projects / "a", "box", SECRETS, data(projects))
    lines = user_file(KEPT, os.environ).read_text().splitlines()
    assert len(lines) == 2 and all(re.fullmatch(r"([0-9a-f]{64}\t){3}[0-9a-f]{64}", line) for line in lines)


def test_SE_the_corrected_command_for_another_host_does_not_repeat_what_is_sent(
    projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--set", SECRETS, "--set", "train.seed=2", "--set", data(projects), "--until", "sync"]
    error = NameUnknown("no machine has the name gpubox", where="gpubox", instead=("gpubox", "gpubox1"))
    show_error(["run", "--host", "gpubox", "--config", "t", *options], error)
    shown = " ".join(capsys.readouterr().err.split())
    assert "pipeline run --host gpubox1 --config t --set train.seed=2 --until sync (type" in shown
    assert "(type --set secrets, --set data.path again if you mean this host)" in shown


@pytest.mark.parametrize(
    "option",
    [
        ["--set=secrets=[A]"],
        ["--set", " data = {path: x}"],
        ["--adapter", "x"],
        ["--adapter=x"],
        ["--set", "host. secrets=[A]"],
    ],
)
def test_SE_every_spelling_of_an_option_is_left_out_for_another_host(option: list[str]) -> None:
    words = ["run", "--host", "gpubox", *option, "--set", "train.seed=2", "--set=host.gpus=[0]"]
    error = NameUnknown("unknown", instead=("gpubox", "gpubox1"))
    hint = with_corrected_hint(words, error).hint
    assert hint.startswith("pipeline run --host gpubox1 --set train.seed=2 '--set=host.gpus=[0]'   (type ")
    other = with_corrected_hint(words, NameUnknown("unknown", instead=("train.seed=2", "train.seed=3")))
    assert shlex.split(other.hint)[1:] == [*words[:-2], "train.seed=3", words[-1]]


def test_the_options_left_out_are_those_that_select_what_is_sent() -> None:
    assert set(CHOICES) == {*map(".".join, TYPED), *(key[0] for key in TYPED), HOST_SECRETS}
    for key in CHOICES:
        assert settings_typed([f"{key}=x"]) and without_choices(["--set", f"{key}=x"]) == ([], [f"--set {key}"])
