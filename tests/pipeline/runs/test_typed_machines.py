"""SE: which machine counts as the one for which the user typed an option: the last one, once it was reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.actions.session import host_session
from pipeline.cli.main import run
from pipeline.runs import resumed
from pipeline.runs.resumed import keep_agreed, require_typed_again
from pipeline.runs.selection import Selection, load_selection
from pipeline.runs.typed_choices import KEPT
from pipeline.stages.stage import RunOptions
from remote.errors import DataUntrusted, HalfstepError, HostFileUntrusted
from remote.project.user_folder import user_file
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.pipeline.listeners import NoListener

ONE, TWO = "one.example", "two.example"
SECRETS = "secrets=[MY_TOKEN]"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and two folders of data beside it, at a terminal."""
    for folder in ("a/configs/hosts", "toy", "private"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a/train.py").touch()
    (tmp_path / "a/configs/t.yaml").write_text("command: [python, train.py]\n")
    monkeypatch.setattr(resumed, "at_terminal", lambda: True)
    monkeypatch.chdir(tmp_path / "a")
    return tmp_path / "a"


def select(machine: str, *overrides: str, config: str = "t") -> Selection:
    Path("configs/hosts/box.yaml").write_text(f"host: {machine}\n")
    return load_selection("box", config, overrides, Path.cwd())


def questions(machine: str, *overrides: str, config: str = "t") -> int:
    """Return the number of questions for a command, all of which are answered with yes. It reaches the host."""
    person, one = Person(yes=True), select(machine, *overrides, config=config)
    require_typed_again(one, person)
    require_typed_again(one, person)  # every part of a command requires it
    keep_agreed(one)
    return len(person.questions)


def kept() -> list[str]:
    file = user_file(KEPT, os.environ)
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("first", ["data.path=../toy", "data.path=../private", SECRETS])
def test_SE_an_earlier_machine_is_asked_about_once_another_one_was_confirmed(first: str) -> None:
    assert questions(ONE, first) == 0
    assert questions(TWO, "data.path=../private") == 1
    assert questions(ONE, "data.path=../private") == 1
    assert questions(ONE, "data.path=../private") == questions(ONE, SECRETS) == 0


def test_SE_each_change_of_the_machine_is_asked_about_also_back_to_a_known_one() -> None:
    assert questions(ONE, SECRETS) == 0
    for machine in (TWO, ONE, TWO):
        with pytest.raises(HostFileUntrusted, match="is not the machine"):
            require_typed_again(select(machine, SECRETS), Person(yes=False))
        assert questions(machine, SECRETS, "data.path=../toy") == 1
        assert questions(machine, SECRETS) == 0
    assert questions(ONE, "data.path=../private") == 1


def test_SE_a_machine_that_the_user_refused_after_the_first_question_is_not_known() -> None:
    assert questions(ONE, SECRETS) == 0
    require_typed_again(select(TWO, SECRETS, "data.path=../private"), Person(yes=True))  # another question: no
    assert questions(ONE, "data.path=../private") == 0
    assert questions(TWO, "data.path=../private") == 1


def test_SE_a_machine_whose_host_file_was_refused_is_asked_about_later() -> None:
    Path("configs/hosts/box.yaml").write_text(f"host: {ONE}\nsecrets: [AWS_KEY]\n")
    verify = ["verify", "--host", "box", "--config", "t", "--set", "secrets=[HOME]", "--json"]
    assert run(verify) != ExitCode.OK and kept() == []
    assert questions(TWO, SECRETS) == 0
    assert questions(ONE, SECRETS) == 1


def test_SE_uses_are_stored_only_when_all_was_confirmed_and_the_host_was_reached(tmp_path: Path) -> None:
    config = Path("configs/t.yaml")
    settings = ["secrets=[MY_TOKEN]", f"host.workdir={tmp_path}/there"]
    config.write_text("command: [python, train.py]\ndata: {path: ../private}\n")
    with (
        pytest.raises(DataUntrusted),
        host_session(load_selection("local", "t", settings, Path.cwd()), NoListener(), RunOptions(), prompter=None),
    ):
        pass
    assert kept() == []
    config.write_text("command: [python, train.py]\n")
    reached = load_selection("local", "t", settings, Path.cwd())
    with host_session(reached, NoListener(), RunOptions(), keep=False):
        assert len(kept()) == 1
    Path("configs/hosts/box.yaml").write_text("host: 127.0.0.1\nport: 9\n")
    away = load_selection("box", "t", ["secrets=[OTHER]"], Path.cwd())
    with pytest.raises(HalfstepError), host_session(away, NoListener(), RunOptions(), prompter=None):
        pass
    assert len(kept()) == 1


@pytest.mark.parametrize("to", ["a", "a/sub"])
def test_SE_a_config_that_was_typed_as_a_path_counts_before_a_link_leads_to_another_project(
    project: Path, to: str
) -> None:
    for folder in ("sub", "../thesis"):
        (project / folder / "configs").mkdir(parents=True)
        (project / folder / "configs/t.yaml").write_text("command: [python, train.py]\n")
        (project / folder / "train.py").touch()
    link, path = project.parent / "exp", "../exp/configs/t.yaml"
    link.symlink_to(to)
    assert questions(ONE, config=path) == 0
    link.unlink()
    link.symlink_to("thesis")
    with pytest.raises(HostFileUntrusted, match="for which you typed --config"):
        require_typed_again(select(TWO, config=path), Person(yes=False))
    assert questions(ONE, config=path) == 0


def test_a_path_of_a_config_of_the_project_asks_nothing_and_makes_no_other_machine_known() -> None:
    for machine in (ONE, TWO):
        assert questions(machine, config="configs/t.yaml") == 0
    assert len(kept()) == 1
    assert questions(ONE, SECRETS) == 0
    assert questions(TWO, "data.path=../private") == 1
