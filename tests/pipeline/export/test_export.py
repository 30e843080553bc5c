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
from pipeline.export.compose import scan_for_export, write_task
from pipeline.export.task import task_name
from remote.protocol.exits import ExitCode
from tests.pipeline.export.engine_file import ENGINES, archived, exported

ROOT = Path(__file__).parents[3]


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


def test_an_upload_over_the_limit_of_a_dstack_server_is_a_warning(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "weights.bin").write_bytes(os.urandom(3_000_000))
    assert run(["export", "dstack", "--config", "Paper_R64", "--json"]) == 0
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["severity"] == "warning"
    assert "DSTACK_SERVER_CODE_UPLOAD_LIMIT" in finding["hint"]


@pytest.mark.parametrize(("engine", "tool"), [("sky", "sky"), ("dstack", "dstack")])
@pytest.mark.parametrize("volume", [(), ("--volume", "kept")])
def test_SE_the_printed_commands_of_an_engine_run_outside_of_the_project(
    project: Path, capsys: pytest.CaptureFixture[str], engine: str, tool: str, volume: tuple[str, ...]
) -> None:
    """SkyPilot started a server with modules of the current folder, and sent secrets to the server in its settings."""
    exported(engine, project, *volume)
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    commands = [line for line in printed if f"{tool} " in line and str(project) in line]
    assert commands and all(line.startswith(f"(cd / && {tool} ") for line in commands)


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


def test_SE_the_uploaded_config_is_the_one_that_was_loaded_although_its_file_was_replaced(
    project: Path, tmp_path: Path
) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(f"project: {project}\ncommand: [python, train.py]\n")
    loaded = load_config(str(path), project)
    path.unlink()
    path.symlink_to("/etc/passwd")
    task = write_task(scan_for_export(loaded), "sky", (), "", "")
    with tarfile.open(next(each for each in task.uploads.values() if each.name == "project.tar.gz")) as archive:
        uploaded = archive.extractfile("halfstep-export.yaml")
        assert uploaded is not None and uploaded.read() == loaded.content
    assert b"train.py" in loaded.content
