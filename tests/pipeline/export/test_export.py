"""`pipeline export`: what it writes for each engine, what it uploads, and what it refuses to upload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config
from pipeline.export.bundle import pack_wheel
from pipeline.export.task import task_name
from pipeline.runs.consent import require_secret_consent
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.pipeline.export.engine_file import EngineFile, read_engine_file

ROOT = Path(__file__).parents[3]
ENGINES = ("sky", "dstack")
FILES = {"sky": "task.yaml", "dstack": "task.dstack.yml"}
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "speech"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "Paper_R64.yaml").write_text(
        "command: [python, train.py]\nsecrets: [HF_TOKEN]\nenv: {LEVEL: '3'}\n"
    )
    (root / "train.py").write_text("print('training')\n")
    (root / "start.sh").write_text("#!/bin/sh\n")
    (root / "start.sh").chmod(0o755)
    (root / "latest").symlink_to("train.py")
    (root / ".gitignore").write_text("out/\n")
    (root / "out").mkdir()
    (root / "out" / "big.bin").write_text("large")
    monkeypatch.chdir(root)
    require_secret_consent(load_config("Paper_R64", root), Person(), typed=False, host=None)
    return root


def exported(engine: str, root: Path, *words: str, config: str = "Paper_R64") -> EngineFile:
    """Run `pipeline export` and read the file that it wrote."""
    assert run(["export", engine, "--config", config, *words]) == 0
    name = Path(config).stem
    return read_engine_file(engine, root / ".halfstep" / "export" / f"{engine}-{name}" / FILES[engine])


def archived(task: EngineFile) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(task.uploads["halfstep-task/project.tar.gz"]) as archive:
        return {member.name: member for member in archive}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_archive_has_exactly_the_files_that_a_sync_would_send(project: Path, engine: str) -> None:
    files = archived(exported(engine, project))
    assert sorted(files) == [".gitignore", "configs/Paper_R64.yaml", "latest", "start.sh", "train.py"]
    assert files["start.sh"].mode & 0o111
    assert files["latest"].linkname == "train.py"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_second_export_writes_the_same_bytes(project: Path, engine: str) -> None:
    first = {name: path.read_bytes() for name, path in exported(engine, project).uploads.items()}
    (project / "train.py").touch()
    assert {name: path.read_bytes() for name, path in exported(engine, project).uploads.items()} == first


def test_sky_takes_any_card_with_24_gb_and_the_secrets_from_the_users_environment(project: Path) -> None:
    task = exported("sky", project).values
    assert task["name"] == "paper-r64"
    assert {"L4:1", "A10G:1"} <= set(task["resources"]["accelerators"])
    assert task["secrets"] == {"HF_TOKEN": None}
    assert "volumes" not in task


def test_dstack_takes_any_card_with_24_gb_and_the_secrets_from_the_users_environment(project: Path) -> None:
    task = exported("dstack", project).values
    assert (task["type"], task["name"]) == ("task", "paper-r64")
    assert task["resources"]["gpu"] == "24GB.."
    assert task["env"] == ["HF_TOKEN"]
    assert "volumes" not in task and "retry" not in task


@pytest.mark.parametrize(("gpu", "sky", "dstack"), [("H100:8", {"H100:8": None}, "H100:8"), ("none", None, 0)])
def test_a_card_s_name_is_passed_to_the_engine_unchanged(
    project: Path, gpu: str, sky: dict[str, None] | None, dstack: object
) -> None:
    assert exported("sky", project, "--gpu", gpu).values["resources"].get("accelerators") == sky
    assert exported("dstack", project, "--gpu", gpu).values["resources"]["gpu"] == dstack


@pytest.mark.parametrize("engine", ENGINES)
def test_with_a_volume_the_project_and_the_work_folder_are_on_it(project: Path, engine: str) -> None:
    task = exported(engine, project, "--volume", "kept")
    assert "tar -xzf project.tar.gz -C /halfstep/project" in task.scripts[-1]
    assert "--set host.workdir=/halfstep/work" in task.scripts[-1]
    assert task.values["volumes"] in ({"/halfstep": "kept"}, [{"name": "kept", "path": "/halfstep"}])


@pytest.mark.parametrize("engine", ENGINES)
def test_overrides_are_repeated_on_the_machine(project: Path, engine: str) -> None:
    task = exported(engine, project, "--set", "env.LEVEL=a b", "--set", "host.env.X=1")
    words = "run --host local --config configs/Paper_R64.yaml --set 'env.LEVEL=a b' --set host.env.X=1"
    assert words in task.scripts[-1]


def test_requirements_of_the_project_are_installed(project: Path) -> None:
    assert "requirements.txt" not in exported("sky", project).values["setup"]
    (project / "requirements.txt").write_text("einops\n")
    assert "pip install --quiet --requirement requirements.txt" in exported("sky", project).values["setup"]


def test_a_config_outside_the_project_is_uploaded_with_it(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(f"project: {project}\ncommand: [python, train.py]\n")
    task = exported("sky", project, config=str(tmp_path / "other.yaml"))
    assert "halfstep-export.yaml" in archived(task)
    assert "--config halfstep-export.yaml --set project=." in task.values["run"]


def test_an_ignored_config_is_uploaded_all_the_same(project: Path) -> None:
    (project / ".gitignore").write_text("configs/\n")
    assert "halfstep-export.yaml" in archived(exported("dstack", project))


def test_a_builtin_config_is_named_and_its_data_is_in_the_wheel(project: Path) -> None:
    task = exported("sky", project, config="tiny")
    assert task.values["run"].endswith("run --host local --config tiny\n")
    wheel = zipfile.ZipFile(next(path for name, path in task.uploads.items() if name.endswith(".whl")))
    assert any(name.startswith("pipeline/shipped/tiny-speech/") for name in wheel.namelist())


@pytest.mark.parametrize(("named", "place"), [("sounds", "in"), ("../sounds", "out")])
@pytest.mark.parametrize("engine", ENGINES)
def test_data_is_uploaded_separately_and_found_under_its_name(
    project: Path, tmp_path: Path, engine: str, named: str, place: str
) -> None:
    folder = (project / named).resolve()
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    task = exported(engine, project, "--set", f"data.path={named}")
    assert task.uploads["halfstep-task/data"] == folder
    assert not any(name.startswith("sounds") for name in archived(task))
    home = tmp_path / "home"
    task.place_uploads(home)
    unpack = task.scripts[-1].replace("cd ~\n", "").replace('"$task/venv/bin/pipeline"', "printf '%s\\n'")
    if engine == "dstack":
        unpack = unpack[unpack.index("cd ..\n") + len("cd ..\n") :]
    for _ in range(2):  # the engine restarts a task on the same machine
        done = subprocess.run(["sh", "-c", unpack], cwd=home, capture_output=True, text=True, check=True)
        inside = home / "halfstep-task" / "project"
        assert (inside / "train.py").is_file()
        if place == "in":
            assert (inside / "sounds" / "a.txt").read_text() == "one"
        else:
            assert f"data.path={home}/halfstep-task/data" in done.stdout
        (inside / ".halfstep").mkdir(exist_ok=True)
        (inside / ".halfstep" / "record").write_text("kept")
        (inside / "stale.py").write_text("")
    assert (inside / ".halfstep" / "record").read_text() == "kept"


@pytest.mark.parametrize("name", [".git/config", "part/.git", "__pycache__/key", "a/.halfstep/key"])
def test_SE_data_with_a_folder_that_is_not_searched_for_secrets_is_not_exported(
    project: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = project / "sounds" / name
    path.parent.mkdir(parents=True)
    path.write_text(KEY)
    assert run(["export", "sky", "--config", "Paper_R64", "--set", "data.path=sounds", "--json"]) == ExitCode.SYNC
    (error,) = (each for each in json.loads(capsys.readouterr().out)["findings"] if each["severity"] == "error")
    assert name.startswith(error["where"]) and "would be uploaded" in error["message"]


@pytest.mark.parametrize("link", ["part", "part/deeper"])
def test_SE_data_with_a_git_folder_behind_a_link_is_not_exported(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    (tmp_path / "other" / ".git").mkdir(parents=True)
    (tmp_path / "other" / ".git" / "config").write_text(KEY)
    (tmp_path / "sounds" / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "sounds" / link).symlink_to(tmp_path / "other")
    (tmp_path / "sounds" / "again").symlink_to(tmp_path / "sounds")
    assert run(["export", "sky", "--config", "Paper_R64", "--set", "data.path=../sounds", "--json"]) == ExitCode.SYNC
    (error,) = (each for each in json.loads(capsys.readouterr().out)["findings"] if each["severity"] == "error")
    assert error["where"] == f"{link}/.git" and "would be uploaded" in error["message"]


def judge_finder_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str) -> list[str]:
    """Export data with the file that is at `tmp_path`/finder, as part/.DS_Store. Return the places of the errors."""
    part = tmp_path / "sounds" / "part"
    part.mkdir(parents=True)
    (part / "a.txt").write_text("one")
    (tmp_path / "finder").rename(part / ".DS_Store")
    code = run(["export", engine, "--config", "Paper_R64", "--set", "data.path=../sounds", "--json"])
    answer = json.loads(capsys.readouterr().out)
    errors = [one["where"] for one in answer["findings"] if one["severity"] == "error"]
    assert code == (ExitCode.SYNC if errors else ExitCode.OK)
    return errors


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["notes.txt", "notes", "sounds/part/a.txt", "/dev/null"])
def test_SE_a_finder_file_that_is_a_link_is_not_exported(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str, target: str
) -> None:
    (tmp_path / "notes.txt").write_text("private")
    (tmp_path / "notes").mkdir()
    (tmp_path / "finder").symlink_to(tmp_path / target)
    assert judge_finder_file(tmp_path, capsys, engine) == ["part/.DS_Store"]


@pytest.mark.parametrize("form", ["key", "folder", "fifo"])
def test_SE_a_finder_file_of_another_form_is_not_exported(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    if form == "key":
        (tmp_path / "finder").write_text(KEY)
    elif form == "fifo":
        os.mkfifo(tmp_path / "finder")
    else:
        (tmp_path / "finder").mkdir()
        (tmp_path / "finder" / "notes.txt").symlink_to(tmp_path)
    assert judge_finder_file(tmp_path, capsys, "dstack") == ["part/.DS_Store"]


def test_data_with_a_file_of_the_finder_is_exported(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "finder").write_bytes(b"\0\0\0\1Bud1\0\0")
    assert judge_finder_file(tmp_path, capsys, "dstack") == []


def test_data_that_contains_a_key_is_not_exported(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "a.txt").write_text("one")
    (tmp_path / "sounds" / "id_rsa").write_text(KEY)
    words = ["export", "sky", "--config", "Paper_R64", "--set", "data.path=../sounds", "--json"]
    assert run(words) == ExitCode.SYNC
    answer = json.loads(capsys.readouterr().out)
    assert [one["where"] for one in answer["findings"] if one["severity"] == "error"] == ["id_rsa"]
    assert not (project / ".halfstep" / "export").exists()


def test_an_upload_over_the_limit_of_a_dstack_server_is_a_warning(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "weights.bin").write_bytes(os.urandom(3_000_000))
    assert run(["export", "dstack", "--config", "Paper_R64", "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["severity"] == "warning"
    assert "DSTACK_SERVER_CODE_UPLOAD_LIMIT" in finding["hint"]


def test_an_unknown_engine_is_a_usage_error(project: Path) -> None:
    assert run(["export", "kubernetes", "--config", "Paper_R64"]) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("config", "name"),
    [("paper_r64", "paper-r64"), ("64", "run-64"), ("__", "run"), ("é", "run"), ("a" * 60, "a" * 41), ("A.b", "a-b")],
)
def test_a_task_is_named_as_both_engines_accept(config: str, name: str) -> None:
    assert task_name(config) == name


def test_pip_installs_the_wheel_and_its_command_runs(tmp_path: Path) -> None:
    own = distribution("halfstep")
    wheel = tmp_path / f"halfstep-{own.version}-py3-none-any.whl"
    wheel.write_bytes(pack_wheel(own, data=False))
    into = tmp_path / "site"
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(into), str(wheel)]
    subprocess.run([sys.executable, *install], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-P", str(into / "bin" / "pipeline"), "configs", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(into)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {one["name"] for one in json.loads(done.stdout)["configs"]} >= {"tiny", "paper_r64"}
    assert str(into) in done.stdout
    with (ROOT / "pyproject.toml").open("rb") as file:  # every package of the wheel that a build would make
        built = tomllib.load(file)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {path.name for path in into.iterdir()} >= set(built)
