"""A user's own command finds `data.path` in the project, in its environment and in its arguments."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.command import command_of, data_at, environment_of, job_place
from pipeline.runs.view import View, data_folder, data_name
from remote.project.data import scan_data
from remote.project.scan import scan_project
from tests.pipeline.views import view_of

COMMAND = "command: [python, train.py, --data, '{data_dir}']"


def view_with(root: Path, path: str, command: str = COMMAND) -> View:
    view = view_of(root, None)
    (root / "configs" / "plain.yaml").write_text(f"project: .\n{command}\ndata: {{path: {path}}}\n")
    loaded = load_config("plain", root)
    folder = data_folder(loaded)
    assert folder is not None
    return replace(view, loaded=loaded, data=scan_data(folder))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data" / "wavs").mkdir(parents=True)
    (root / "data" / "wavs" / "a.wav").write_bytes(b"RIFF")
    return root


def test_a_data_folder_has_a_path_a_variable_and_a_placeholder(project: Path) -> None:
    view = view_with(project, "data/wavs")
    place = job_place(view)
    assert data_at(view, place) == {"data/wavs": place.data}
    assert environment_of(view, place)["HALFSTEP_DATA_DIR"] == place.data
    assert command_of(view, place)[1:] == ("train.py", "--data", place.data)


def test_a_data_file_is_named_by_its_own_path(project: Path) -> None:
    view = view_with(project, "data/wavs/a.wav")
    place = job_place(view)
    assert data_at(view, place) == {"data/wavs/a.wav": f"{place.data}/a.wav"}


def test_a_linked_local_folder_has_the_name_of_the_link(project: Path, tmp_path: Path) -> None:
    (project / "data").rename(tmp_path / "corpus")
    (project / "data").symlink_to(tmp_path / "corpus")
    view = view_with(project, "data")
    assert list(data_at(view, job_place(view))) == ["data"]
    scan = scan_project(project, data_link=data_name(view.loaded))
    assert scan.report.ok and "data" not in scan.manifest.rows
    assert not scan_project(project).report.ok


def test_data_in_the_project_are_not_sent_with_the_code_too(project: Path) -> None:
    for name in ("train.py", "data/wavs/build.py", "data/labels.csv", "data2.csv"):
        (project / name).write_text("x = 1\n")
    view = view_with(project, "data")
    sent = scan_project(project, data_link=data_name(view.loaded)).paths()
    assert {path for path in sent if not path.startswith("configs/")} == {"train.py", "data/wavs/build.py", "data2.csv"}
    assert view.data is not None and "labels.csv" in view.data.files


def test_one_file_of_data_in_the_project_is_not_sent_with_the_code_too(project: Path) -> None:
    (project / "data" / "train.jsonl").write_text("{}\n")
    view = view_with(project, "data/train.jsonl")
    assert set(scan_project(project).paths()) >= {"data/train.jsonl", "data/wavs/a.wav"}
    sent = scan_project(project, data_link=data_name(view.loaded)).paths()
    assert "data/train.jsonl" not in sent and "data/wavs/a.wav" in sent


def test_data_that_git_tracks_are_sent_with_the_code(project: Path) -> None:
    for words in (["init", "-q"], ["add", "data/wavs/a.wav"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    (project / "data" / "wavs" / "b.wav").write_bytes(b"RIFF")
    sent = scan_project(project, data_link="data").paths()
    assert "data/wavs/a.wav" in sent and "data/wavs/b.wav" not in sent


def test_data_outside_of_the_project_has_no_place_in_it(project: Path, tmp_path: Path) -> None:
    (project / "data").rename(tmp_path / "corpus")
    view = view_with(project, "../corpus")
    assert data_at(view, job_place(view)) == {}
    assert environment_of(view, job_place(view))["HALFSTEP_DATA_DIR"] == job_place(view).data


def test_without_data_there_is_no_path_variable_or_placeholder(project: Path) -> None:
    view = view_of(project, None)
    assert data_at(view, job_place(view)) == {}
    assert "HALFSTEP_DATA_DIR" not in environment_of(view, job_place(view))
