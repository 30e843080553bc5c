"""`pipeline export` of a cloned project: its config cannot send the user's files or variables unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config
from pipeline.runs.consent import require_project_consent, require_secret_consent
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.pipeline.export.engine_file import EngineFile, read_engine_file

FILES = {"sky": "task.yaml", "dstack": "task.dstack.yml"}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "clone"
    (root / "configs").mkdir(parents=True)
    (root / "train.py").write_text("print('training')\n")
    monkeypatch.chdir(root)
    return root


def write_config(root: Path, more: str) -> None:
    (root / "configs" / "paper.yaml").write_text(f"command: [python, train.py]\n{more}")


def exported(root: Path, engine: str) -> EngineFile:
    assert run(["export", engine, "--config", "paper"]) == 0
    return read_engine_file(engine, root / ".halfstep/export" / f"{engine}-paper" / FILES[engine])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("data: {path: ../private}\n", ExitCode.SYNC),
        ("project: ../private\n", ExitCode.SYNC),
        ("secrets: [AWS_SECRET_ACCESS_KEY]\n", ExitCode.HOST_KEY),
    ],
    ids=["data", "project", "secrets"],
)
@pytest.mark.parametrize("engine", FILES)
def test_data_and_secrets_that_were_not_confirmed_are_not_exported(
    clone: Path, engine: str, more: str, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone.parent / "private").mkdir()
    (clone.parent / "private" / "letter.txt").write_text("private")
    (clone.parent / "private" / "train.py").write_text("")
    write_config(clone, more)
    assert run(["export", engine, "--config", "paper"]) == code
    assert "pipeline export " + engine in capsys.readouterr().err
    assert not (clone / ".halfstep" / "export").exists()


@pytest.mark.parametrize("engine", FILES)
def test_the_next_step_is_the_typed_command_with_the_setting_that_confirms(
    clone: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone.parent / "private").mkdir()
    write_config(clone, "data: {path: ../private}\n")
    words = ["export", engine, "--config", "paper", "--set", "train.max_steps=3", "--gpu", "L4"]
    assert run([*words, "--json"]) == ExitCode.SYNC
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["hint"] == f"pipeline {' '.join(words)} --set data.path=../private"
    assert run(finding["hint"].split()[1:]) == 0


@pytest.mark.parametrize("engine", FILES)
def test_the_machine_is_not_asked_again_for_what_the_user_confirmed(clone: Path, engine: str) -> None:
    (clone / "sounds").mkdir()
    (clone / "sounds" / "a.txt").write_text("one")
    write_config(clone, "secrets: [HF_TOKEN]\ndata: {path: sounds}\n")
    require_secret_consent(load_config("paper", clone), Person(), typed=False, host=None)
    last = exported(clone, engine).scripts[-1]
    assert "--set 'secrets=[HF_TOKEN]'" in last and "--set data.path=sounds" in last


@pytest.mark.parametrize("engine", FILES)
def test_the_machine_is_not_asked_again_for_a_project_above_the_config(clone: Path, engine: str) -> None:
    (clone.parent / "train.py").write_text("")
    write_config(clone, "project: ..\n")
    require_project_consent(load_config("paper", clone), Person(), typed=False, host=None)
    assert run(["export", engine, "--config", "paper"]) == 0
    task = read_engine_file(engine, clone.parent / ".halfstep/export" / f"{engine}-paper" / FILES[engine])
    assert "--config clone/configs/paper.yaml --set project=.." in task.scripts[-1]


@pytest.mark.parametrize("name", ["X; touch stolen", "X\nfile_mounts: {a: b}", "--all", ""])
def test_a_secret_whose_name_is_no_variable_name_is_refused(
    clone: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(clone, 'secrets: ["' + name.replace("\n", "\\n") + '"]\n')
    assert run(["export", "sky", "--config", "paper"]) == ExitCode.USAGE
    assert "secrets.0" in capsys.readouterr().err


def test_a_link_in_place_of_the_folder_of_exports_is_refused(clone: Path) -> None:
    (clone.parent / "home").mkdir()
    (clone / ".halfstep").mkdir()
    (clone / ".halfstep" / "export").symlink_to(clone.parent / "home")
    write_config(clone, "")
    assert run(["export", "sky", "--config", "paper"]) == ExitCode.USAGE
    assert not any((clone.parent / "home").iterdir())


@pytest.mark.parametrize(
    ("config", "more", "made"),
    [
        ("paper", "project: '$(id)'\n", "$(id)/train.py"),
        ("it's $(id)", "", "train.py"),
    ],
    ids=["project", "config"],
)
@pytest.mark.parametrize("engine", FILES)
def test_SE_a_path_with_characters_of_a_shell_is_not_exported(
    clone: Path, engine: str, config: str, more: str, made: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """SkyPilot put the path of an upload into a shell command on the laptop, between quotes that the path ended."""
    (clone / made).parent.mkdir(parents=True, exist_ok=True)
    (clone / made).write_text("print()\n")
    (clone / "configs" / f"{config}.yaml").write_text(f"command: [python, train.py]\n{more}")
    assert run(["export", engine, "--config", config]) == ExitCode.SYNC
    assert "may run as a shell command" in "".join(capsys.readouterr())
    assert not (clone / ".halfstep" / "export").exists()


@pytest.mark.parametrize("engine", FILES)
@pytest.mark.parametrize("path", ["it's $(id)", "sounds\nfile_mounts: {x: keys}", "audio", "für #1, [50%] + ~x@y"])
def test_SE_names_of_data_are_only_in_archives(clone: Path, engine: str, path: str) -> None:
    """SkyPilot put names of data into shell commands, and read a `.skyignore` whose patterns led out of the data."""
    for name in ("a';id;'b.wav", "a`id`/b.wav", "line\nid", ".skyignore"):
        (clone / path / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / path / name).write_text("/../../other/*\n")
    (clone / path / "z';id;'").symlink_to("a`id`")
    write_config(clone, f"data: {{path: {json.dumps(path)}}}\n")
    task = exported(clone, engine)
    assert not any("id" in file.name or file.is_dir() for file in task.uploads.values())
