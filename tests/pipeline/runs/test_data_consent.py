"""Data from outside the project is sent only after the user has confirmed it; a config alone is not enough."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config
from pipeline.runs.consent import require_data_consent
from pipeline.runs.selection import DATA_PATH, is_set, load_selection
from remote.errors import DataUntrusted, SyncRefused
from remote.project.data import scan_data
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "configs").mkdir(parents=True)
    (root / "data").mkdir()
    (root / "data/a.txt").write_text("a")
    (root / "train.py").write_text("")
    outside = tmp_path / "documents"
    outside.mkdir()
    (outside / "letter.txt").write_text("dear")
    monkeypatch.chdir(root)
    return root


def write_config(project: Path, path: str) -> None:
    text = f"command: [python, train.py]\ndata: {{path: {json.dumps(path)}}}\n"
    (project / "configs/plain.yaml").write_text(text)


def place_data(project: Path, how: str) -> None:
    """Write a config with data outside the project, in one of several ways."""
    outside = project.parent / "documents"
    path = {"absolute": str(outside), "relative": "../documents", "home": "~", "file": f"{outside}/letter.txt"}
    if how == "link":
        (project / "linked").symlink_to(outside)
    elif how == "link to a folder inside":
        (project / "data/more").symlink_to(outside)
    elif how in ("link to a link", "link to a folder of a link", "link to a link of a file"):
        (project / "hidden/more").mkdir(parents=True)
        (project / "data/more").symlink_to("../hidden")
        inner = project / ("hidden/more/docs" if how == "link to a folder of a link" else "hidden/docs")
        inner.symlink_to(outside / "letter.txt" if how == "link to a link of a file" else outside)
    elif how == "link to a file inside":
        (project / "data/b.txt").symlink_to(outside / "letter.txt")
    write_config(project, path.get(how, "linked" if how == "link" else "data"))


LINKS = ["link", "link to a folder inside", "link to a file inside"]
LINKS += ["link to a link", "link to a folder of a link", "link to a link of a file"]
WAYS = ["absolute", "relative", "home", "file", *LINKS]


@pytest.mark.parametrize("how", WAYS)
def test_SE_04_data_from_outside_is_refused_until_it_was_confirmed_once(project: Path, how: str) -> None:
    place_data(project, how)
    loaded = load_config("plain", project)
    for nobody in (None, Person(yes=False)):
        with pytest.raises(DataUntrusted, match="outside of the project") as caught:
            require_data_consent(loaded, nobody, typed=False, host=None)
        assert caught.value.exit_code is ExitCode.SYNC
    person = Person(yes=True)
    require_data_consent(loaded, person, typed=False, host=None)
    require_data_consent(loaded, None, typed=False, host=None)
    assert len(person.questions) == 1
    assert ("your home folder" in person.questions[0]) is (how == "home")


def test_SE_04_links_of_confirmed_data_are_confirmed_too_and_folders_below_it_only_once(project: Path) -> None:
    outside = project.parent / "documents"
    (outside / "old" / "older").mkdir(parents=True)
    (outside / "old/older/letter.txt").write_text("dear")
    (project.parent / "photos").mkdir()
    (outside / "old/photos").symlink_to(project.parent / "photos")
    (project / "data/more").symlink_to(outside)
    write_config(project, "data")
    person = Person(yes=True)
    require_data_consent(load_config("plain", project), person, typed=False, host=None)
    assert [question.count("\n") for question in person.questions] == [1, 1]
    assert str(outside) in person.questions[0] and str(project.parent / "photos") in person.questions[1]


def test_SE_a_linked_root_of_the_file_system_is_refused_before_it_is_walked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "data/all").symlink_to("/")
    write_config(project, "data")
    loaded, listed = load_config("plain", project), []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    with pytest.raises(DataUntrusted, match=r"takes data from / .*outside of the project"):
        require_data_consent(loaded, None, typed=False, host=None)
    assert listed == [str(project / "data")]


def test_SE_04_a_confirmation_holds_for_one_project_and_one_folder(project: Path, tmp_path: Path) -> None:
    write_config(project, "../documents")
    require_data_consent(load_config("plain", project), Person(yes=True), typed=False, host=None)
    other = tmp_path / "other"
    (other / "configs").mkdir(parents=True)
    (other / "train.py").write_text("")
    write_config(other, "../documents")
    with pytest.raises(DataUntrusted):
        require_data_consent(load_config("plain", other), None, typed=False, host=None)
    write_config(project, str(tmp_path))
    with pytest.raises(DataUntrusted):
        require_data_consent(load_config("plain", project), None, typed=False, host=None)


@pytest.mark.parametrize("how", ["in the project", "a link within the project", "shipped", "by name"])
def test_data_of_the_project_and_of_halfstep_needs_no_confirmation(project: Path, how: str) -> None:
    (project / "data/same.txt").symlink_to("a.txt")
    (project / "near").symlink_to("data")
    write_config(project, {"a link within the project": "near"}.get(how, "data"))
    if how in ("shipped", "by name"):
        dataset = "tiny-speech" if how == "shipped" else "mispeech/speechocean762"
        (project / "configs/plain.yaml").write_text(f"command: [python, train.py]\ndata: {{dataset: {dataset}}}\n")
    require_data_consent(load_config("plain", project), None, typed=False, host=None)


@pytest.mark.parametrize(
    ("override", "typed"),
    [
        ("data.path=../documents", True),
        ("data={path: ../documents}", True),
        ("data.samples=3", False),
        ("host.port=1", False),
    ],
)
def test_a_path_in_an_override_counts_as_typed(project: Path, override: str, typed: bool) -> None:
    write_config(project, "../documents")
    assert is_set(DATA_PATH, [override]) is typed
    assert load_selection("local", "plain", [override], project).data_typed is typed


def test_SE_04_without_a_terminal_a_run_is_refused_and_the_line_of_its_hint_works(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = project.parent / "my documents"
    (project.parent / "documents").rename(documents)
    write_config(project, str(documents))
    work = project.parent / "work"
    words = [
        "run",
        "--host",
        "local",
        "--config",
        "plain",
        "--set",
        f"host.workdir={work}",
        "--json",
        "--until",
        "sync",
    ]
    assert run(words) == 30
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["check"], finding["where"]) == ("data-untrusted", "data.path")
    assert not list(work.glob("projects/*/data/*"))
    typed = shlex.split(finding["hint"])[1:]
    assert run([*typed, "--json", "--until", "sync"]) == 0
    assert [path.read_text() for path in work.glob("projects/*/data/*/letter.txt")] == ["dear"]


@pytest.mark.parametrize("verb", ["run", "verify", "plan"])
def test_SE_04_every_verb_reports_what_is_left_out_of_the_data(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    write_config(project, "data")
    (project / ".pipelineignore").write_text("data/\n")
    (project / "data/.env").write_text("A=1")
    (project / "data/notes.txt").write_text("password: hunter2\n")
    words = [verb, "--host", "local", "--config", "plain", "--set", f"host.workdir={project.parent / 'work'}", "--json"]
    more = {"run": ["--until", "sync"], "verify": ["--no-proof"], "plan": []}[verb]
    run([*words, *more])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(one["where"] for one in found if one["check"] == "secret-file") == [".env", "notes.txt"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".ssh/id_ed25519", "x"),
        (".aws/credentials", "[default]\n"),
        (".kube/config", "users:\n"),
        ("key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"),
    ],
)
def test_SE_04_a_path_to_credentials_is_refused_even_where_it_was_typed(tmp_path: Path, path: str, text: str) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    (tmp_path / "link").symlink_to(tmp_path / path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/innocent.txt").symlink_to(tmp_path / path)
    for root in (tmp_path / path, tmp_path / "link", tmp_path / "folder"):
        with pytest.raises(SyncRefused, match="may be sent") as caught:
            scan_data(root)
        assert caught.value.exit_code is ExitCode.SYNC


def test_SE_04_the_hint_of_a_link_in_the_data_does_not_confirm_other_links(project: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (project / "data" / name).symlink_to(tmp_path / name)
    write_config(project, "data")
    with pytest.raises(DataUntrusted) as refused:
        require_data_consent(load_config("plain", project), None, typed=False, host=None)
    assert "second" not in refused.value.message and "--set" not in refused.value.hint


def test_SE_04_the_hint_of_a_folder_beside_the_projects_code_does_not_confirm_the_links_in_it(
    project: Path, tmp_path: Path
) -> None:
    (project / "code").mkdir()
    (project / "code/train.py").write_text("")
    (project / "data/diary.txt").symlink_to(tmp_path / "documents/letter.txt")
    text = "project: code\ncommand: [python, train.py]\ndata: {path: ../data}\n"
    (project / "configs/plain.yaml").write_text(text)
    with pytest.raises(DataUntrusted, match="takes data from") as refused:
        require_data_consent(load_config("plain", project), None, typed=False, host=None)
    assert "--set" not in refused.value.hint
