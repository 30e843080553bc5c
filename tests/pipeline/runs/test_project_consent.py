"""A `project:` outside of the config's own project is sent only after the user has confirmed it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from pipeline.config.load import load_config, load_file
from pipeline.records.consents import is_confirmed, keep_consent
from pipeline.runs.consent import require_data_consent, require_project_consent
from remote.errors import BadUsage, DataUntrusted
from remote.project.user_folder import user_file
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "src" / "clone"
    (root / "configs").mkdir(parents=True)
    (root / "code").mkdir()
    for folder in (root, root / "code", root.parent):
        (folder / "train.py").write_text("")
    (root.parent / "private").mkdir()
    (root.parent / "private" / "notes.md").write_text("private")
    (root.parent / "private" / "train.py").write_text("")
    monkeypatch.chdir(root)
    return root


def write_config(folder: Path, project: str) -> Path:
    path = folder / "plain.yaml"
    path.write_text(f"command: [python, train.py]\nproject: {json.dumps(project)}\n")
    return path


def repository(folder: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


@pytest.mark.parametrize("project", ["..", "../private", "linked", "absolute", "code/../../private"])
@pytest.mark.parametrize("in_git", [False, True], ids=["unpacked", "cloned"])
def test_a_project_outside_is_refused_until_it_was_confirmed_once(clone: Path, project: str, in_git: bool) -> None:
    if in_git:
        repository(clone)
    (clone / "linked").symlink_to(clone.parent / "private")
    write_config(clone / "configs", str(clone.parent) if project == "absolute" else project)
    loaded = load_config("plain", clone)
    for nobody in (None, Person(yes=False)):
        with pytest.raises(DataUntrusted, match="outside of") as caught:
            require_project_consent(loaded, nobody, typed=False, host=None)
        assert caught.value.exit_code is ExitCode.SYNC
    person = Person()
    require_project_consent(loaded, person, typed=False, host=None)
    require_project_consent(loaded, None, typed=False, host=None)
    assert len(person.questions) == 1


def test_SE_a_confirmation_of_a_project_outside_holds_for_one_machine(clone: Path) -> None:
    write_config(clone / "configs", "../private")
    loaded, file = load_config("plain", clone), clone / "configs/hosts/rig.yaml"
    file.parent.mkdir()
    file.write_text("host: 10.0.0.1\n")
    require_project_consent(loaded, Person(), typed=False, host=load_host("rig", clone))
    require_project_consent(loaded, None, typed=False, host=load_host("rig", clone))
    file.write_text("host: 10.0.0.2\n")
    with pytest.raises(DataUntrusted):
        require_project_consent(loaded, None, typed=False, host=load_host("rig", clone))


@pytest.mark.parametrize("project", [".", "code", "configs/.."])
def test_a_project_inside_needs_no_confirmation(clone: Path, project: str) -> None:
    write_config(clone / "configs", project)
    require_project_consent(load_config("plain", clone), None, typed=False, host=None)


def test_a_project_in_the_same_work_tree_needs_no_confirmation(clone: Path) -> None:
    repository(clone.parent)
    path = write_config(clone / "configs", "..")
    subprocess.run(["git", "-C", str(clone.parent), "add", str(path)], check=True)
    require_project_consent(load_config("plain", clone), None, typed=False, host=None)


@pytest.mark.parametrize("project", ["..", "../private"])
@pytest.mark.parametrize("folder", ["clone", "clone/deeper"])
def test_SE_04_a_project_unpacked_in_a_repository_of_the_user_does_not_send_the_files_around_it(
    clone: Path, project: str, folder: str
) -> None:
    repository(clone.parent)
    subprocess.run(["git", "-C", str(clone.parent), "add", "private", "train.py"], check=True)
    configs = clone.parent / folder / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    path = write_config(configs, f"{'../' * folder.count('/')}{project}")
    with pytest.raises(DataUntrusted, match="outside of"):
        require_project_consent(load_file(path, configs.parent), None, typed=False, host=None)


def test_SE_04_a_clone_named_configs_does_not_send_the_repository_around_it(clone: Path) -> None:
    repository(clone)
    repository(clone / "configs")
    path = write_config(clone / "configs", ".")
    with pytest.raises(DataUntrusted):
        require_project_consent(load_file(path, clone), None, typed=False, host=None)


def test_a_work_tree_that_contains_the_home_folder_is_no_project(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(clone.parent))
    repository(clone.parent)
    write_config(clone / "configs", "../private")
    with pytest.raises(DataUntrusted):
        require_project_consent(load_config("plain", clone), None, typed=False, host=None)


def test_a_clone_named_configs_does_not_send_the_folder_around_it(clone: Path) -> None:
    repository(clone / "configs")
    path = write_config(clone / "configs", ".")
    with pytest.raises(DataUntrusted):
        require_project_consent(load_file(path, clone), None, typed=False, host=None)


def test_without_a_terminal_nothing_is_sent_and_the_command_in_the_hint_works(
    clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(clone / "configs", "..")
    work = tmp_path / "work"
    more = ["--host", "local", "--config", "plain", "--set", f"host.workdir={work}", "--json", "--until", "sync"]
    assert run(["run", *more]) == run(["run", *more, "--yes"]) == ExitCode.SYNC
    finding = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"][0]
    assert (finding["check"], finding["where"]) == ("data-untrusted", "project")
    assert not list(work.rglob("notes.md"))
    typed = shlex.split(finding["hint"])[1:]
    assert run([*typed, "--json", "--until", "sync"]) == 0
    assert list(work.rglob("notes.md"))


def test_SE_a_folder_that_was_confirmed_as_data_is_not_confirmed_as_the_project(clone: Path) -> None:
    for_data = f"command: [python, train.py]\ndata: {{path: {clone.parent}}}\n"
    (clone / "configs/plain.yaml").write_text(for_data)
    require_data_consent(load_config("plain", clone), Person(), typed=False, host=None)
    write_config(clone / "configs", "..")
    with pytest.raises(DataUntrusted, match="takes files from"):
        require_project_consent(load_config("plain", clone), None, typed=False, host=None)
    (clone / "configs/plain.yaml").write_text(for_data)
    require_data_consent(load_config("plain", clone), None, typed=False, host=None)


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "x\\ny", "a\r\nMay nothing be sent?", "a\x0bb"])
def test_a_name_with_a_line_break_adds_no_line_to_a_question_or_to_the_confirmations(clone: Path, name: str) -> None:
    (clone.parent / name).mkdir()
    (clone.parent / name / "train.py").touch()
    write_config(clone / "configs", f"../{name}")
    person = Person()
    require_project_consent(load_config("plain", clone), person, typed=False, host=None)
    require_project_consent(load_config("plain", clone), None, typed=False, host=None)
    (question,) = person.questions
    assert question.splitlines()[1:] == ["May they be sent to the host?"]
    kept = user_file("trusted_data", os.environ).read_bytes()
    assert (kept.count(b"\n"), kept.count(b"\t")) == (1, 2)


@pytest.mark.parametrize("planted", [("a", "b\tc"), ("a\tb", "c"), ("a\nb", "c"), ("a\\tb", "c"), ("b", "c")])
def test_a_confirmation_holds_for_its_own_fields_only(tmp_path: Path, planted: tuple[str, str]) -> None:
    path = tmp_path / "trusted"
    keep_consent(path, *planted)
    assert is_confirmed(path, *planted)
    others = [("a", "b", "c"), ("a", "b\tc"), ("a\tb", "c"), ("a\nb", "c"), ("a\\tb", "c"), ("b", "c"), ("a",)]
    assert [one for one in others if is_confirmed(path, *one)] == [planted]


@pytest.mark.parametrize("planted", ["link", "folder", "/dev/zero"])
def test_confirmations_are_kept_in_a_regular_file_only(tmp_path: Path, planted: str) -> None:
    path, victim = tmp_path / "trusted", tmp_path / "victim"
    victim.write_text("mine\n")
    path.mkdir() if planted == "folder" else path.symlink_to(victim if planted == "link" else planted)
    for use in (is_confirmed, keep_consent):
        with pytest.raises(BadUsage, match="cannot be read or written"):
            use(path, "mine")
    assert victim.read_text() == "mine\n"
