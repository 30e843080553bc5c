"""SE: a path that the user typed is not the user's choice where a link of the project leads out of the project."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config
from pipeline.runs.consent import own_project, require_data_consent, require_project_consent
from pipeline.runs.selection import load_selection
from remote.errors import DataUntrusted
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person

VERBS = [["run", "--host", "box", "--until", "sync"], ["verify", "--host", "box", "--no-proof"], ["export", "sky"]]
CONFIG = "command: [python, train.py]\n"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned project, and another project of the user beside it."""
    for name in ("clone", "thesis", "thesis/part"):
        (tmp_path / name / "configs/hosts").mkdir(parents=True)
        (tmp_path / name / "train.py").touch()
        (tmp_path / name / "configs/t.yaml").write_text(CONFIG)
        (tmp_path / name / "configs/hosts/box.yaml").write_text("host: 127.0.0.1\nport: 9\n")
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "clone")], check=True)
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def typed(kind: str, path: str) -> list[str]:
    """Return the options with which the user names the path."""
    return ["--config", f"{path}/configs/t.yaml"] if kind == "config" else ["--config", "t", "--set", f"{kind}={path}"]


@pytest.mark.parametrize("verb", VERBS, ids=["run", "verify", "export"])
@pytest.mark.parametrize("path", ["sub", "sub/part", "./sub/../thesis"], ids=["end", "middle", "back"])
@pytest.mark.parametrize("kind", ["project", "data.path", "config"])
def test_SE_a_typed_path_through_a_link_of_the_clone_is_not_sent_without_a_confirmation(
    clone: Path, kind: str, path: str, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "sub").symlink_to("../thesis")
    assert run([*verb, *typed(kind, path), "--json"]) == ExitCode.SYNC
    [finding] = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]
    assert finding["check"] == "data-untrusted" and "nothing was sent" in finding["message"]
    assert not list((clone.parent / "thesis").rglob(".halfstep"))
    assert str(clone.parent / "thesis") in shlex.split(finding["hint"])[-1]  # the real path, which may be typed


@pytest.mark.parametrize("in_git", [True, False], ids=["cloned", "unpacked"])
@pytest.mark.parametrize("way", ["relative", "absolute", "two links", "linked parent"])
def test_SE_every_spelling_of_a_linked_path_is_asked_about_once(
    clone: Path, way: str, in_git: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_git:
        (clone / ".git").rename(clone.parent / "git")
    (clone / "sub").symlink_to(".more" if way == "two links" else clone.parent / "thesis")
    (clone / ".more").symlink_to("../thesis")
    (clone.parent / "way").symlink_to("clone")
    path = {"absolute": str(clone / "sub"), "linked parent": str(clone.parent / "way/sub")}.get(way, "sub")
    for option, require in (("project", require_project_consent), ("data.path", require_data_consent)):
        loaded, person = load_config("t", clone, [f"{option}={path}"]), Person(yes=True)
        with pytest.raises(DataUntrusted, match=r"thesis, outside of"):
            require(loaded, None, typed=True, host=None)
        for _ in range(2):
            require(loaded, person, typed=True, host=None)
        assert len(person.questions) == 1
    assert own_project(load_config(f"{path}/configs/t.yaml", clone)) == clone


def test_SE_a_folder_of_configs_that_is_linked_from_elsewhere_does_not_select_the_folder_beside_it(clone: Path) -> None:
    (clone.parent / "thesis/configs/train.py").touch()
    (clone / "team").symlink_to("../thesis/configs")
    (clone / "configs/more").symlink_to("../../thesis")
    for path in ("team/t.yaml", "configs/more/configs/t.yaml"):
        with pytest.raises(DataUntrusted, match="outside of"):
            require_project_consent(load_config(path, clone), None, typed=False, host=None)


@pytest.mark.parametrize("verb", VERBS, ids=["run", "verify", "export"])
@pytest.mark.parametrize("kind", ["project", "data.path", "config"])
@pytest.mark.parametrize("to", ["clone/sub", "clone/sub/part", "links/more"])
def test_SE_a_link_of_the_user_does_not_hide_a_link_of_the_clone(
    clone: Path, kind: str, to: str, verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The user has made a link to a folder of the clone; `git pull` then replaced this folder by a link."""
    (clone.parent / "links").mkdir()
    (clone.parent / "links/more").symlink_to("../clone/near/part")
    (clone.parent / "mine").symlink_to(to)
    (clone / "near").symlink_to("sub")
    (clone / "sub").symlink_to(clone.parent / "thesis")
    assert run([*verb, *typed(kind, str(clone.parent / "mine")), "--json"]) == ExitCode.SYNC
    [finding] = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]
    assert finding["check"] == "data-untrusted" and "nothing was sent" in finding["message"]


def test_SE_fix_changes_nothing_behind_a_link_of_the_user_to_one_of_the_clone(clone: Path) -> None:
    (clone / "src").symlink_to("../thesis")
    (clone.parent / "mine").symlink_to(clone / "src")
    assert run(["fix", str(clone.parent / "mine")]) == ExitCode.USAGE
    assert not list((clone.parent / "thesis").rglob(".halfstep"))


def test_SE_a_project_that_git_does_not_track_is_not_the_repository_around_it(clone: Path) -> None:
    """A project was unpacked in a repository of the user; its link leads to other files of this repository."""
    (clone / ".git").rename(clone.parent / ".git")
    subprocess.run(["git", "add", "thesis"], cwd=clone.parent, check=True)
    (clone / "sub").symlink_to("../thesis")
    loaded = load_config("t", clone, ["project=sub"])
    with pytest.raises(DataUntrusted, match="outside of"):
        require_project_consent(loaded, None, typed=True, host=None)
    subprocess.run(["git", "add", "clone"], cwd=clone.parent, check=True)
    require_project_consent(loaded, None, typed=True, host=None)


def test_what_the_user_names_is_sent_unasked(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed paths outside of the clone, links within it, and whole projects that the user's own links name."""
    thesis, own = clone.parent / "thesis", clone.parent / "links"
    own.mkdir()
    (own / "to").symlink_to(clone)
    (own / "other").symlink_to(thesis)
    (clone / "code").mkdir()
    (clone / "code/train.py").touch()
    (clone / "near").symlink_to("code")
    for path in ("../thesis", str(thesis), str(own / "other"), "near", str(own / "to/near")):
        require_project_consent(load_config("t", clone, [f"project={path}"]), None, typed=True, host=None)
        require_data_consent(load_config("t", clone, [f"data.path={path}"]), None, typed=True, host=None)
    monkeypatch.chdir(own / "to")
    for config in ("t", "configs/t.yaml", str(own / "other/configs/t.yaml"), str(own / "to/configs/t.yaml")):
        require_project_consent(load_config(config, Path.cwd()), None, typed=False, host=None)


def test_a_linked_folder_of_data_is_read_by_a_run_on_this_machine(clone: Path) -> None:
    """An exported task links the project's data to the folder that the engine has mounted."""
    (clone / "data").symlink_to("../thesis")
    one = load_selection("local", "t", ["data.path=data"], clone)
    assert require_data_consent(one.loaded, None, typed=True, host=one.host) is None


@pytest.mark.parametrize("path", ["src", "src/part", "src/../thesis"])
@pytest.mark.parametrize("more", [["--only", "bf16"], ["--diff"], ["--undo"]])
def test_SE_fix_changes_nothing_behind_a_link_of_the_clone(
    clone: Path, path: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "src").symlink_to(clone.parent / "thesis")
    real = os.path.realpath(path)
    assert run(["fix", path, *more]) == ExitCode.USAGE
    shown = " ".join(capsys.readouterr().err.split())
    assert "nothing was changed" in shown and shlex.join(["pipeline", "fix", real, *more]) in shown
    assert not list((clone.parent / "thesis").rglob(".halfstep"))


def test_SE_fix_of_an_absolute_path_changes_nothing_behind_a_link_of_a_project(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "src").symlink_to("../thesis")
    monkeypatch.chdir(clone.parent)
    assert run(["fix", "clone/src"]) == run(["fix", str(clone / "src")]) == ExitCode.USAGE
    (clone.parent / "mine").symlink_to("clone")
    assert run(["fix", "mine", "--card", "titan-rtx"]) == ExitCode.OK
