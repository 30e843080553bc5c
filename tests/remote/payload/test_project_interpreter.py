"""An interpreter that came with the project is not run before the proof, on no host."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remote.payload.probes.python import InterpreterFault, find_python, read_interpreter
from remote.payload.tree.state import Commit, Project, write_commit, write_manifest
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import Manifest, Row

ROW = Row("a" * 64, "a" * 64, 0o755, 1)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose venv/bin/python writes the file `ran`."""
    made = Project(str(tmp_path), ProjectLayout("speech-0badcafe"))
    for folder in ("venv", ".venv", "tools"):
        program = Path(made.tree, folder, "bin/python")
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        program.chmod(0o755)
    return made


def sync(project: Project, *paths: str) -> None:
    """Record the paths as sent by the laptop."""
    write_manifest(project, Manifest(dict.fromkeys(paths, ROW)))


@pytest.mark.parametrize(
    ("synced", "found"),
    [
        ((), "venv"),
        (("train.py", "venvs/notes.txt"), "venv"),
        (("venv/bin/python",), ".venv"),
        (("venv/lib/python3.12/site-packages/evil.pth",), ".venv"),
        (("venv",), ".venv"),
        (("venv/pyvenv.cfg", ".venv/bin/activate"), ""),
    ],
)
def test_SE_a_venv_with_files_of_the_project_is_not_the_interpreter(
    project: Project, tmp_path: Path, synced: tuple[str, ...], found: str
) -> None:
    sync(project, *synced)
    path = find_python("", project)
    assert path == f"{project.tree}/{found}/bin/python" if found else not path.startswith(project.tree)
    assert not (tmp_path / "ran").exists()


def test_SE_a_venv_of_an_unfinished_sync_is_not_the_interpreter(project: Project) -> None:
    write_commit(project, Commit({}, {"venv/bin/python": ROW, ".venv/bin/python": ROW}))
    assert not find_python("", project).startswith(project.tree)


@pytest.mark.parametrize(
    ("python", "synced"),
    [
        ("tools/bin/python", "tools/bin/python"),
        ("./tools/../venv/bin/python", "venv/bin/python"),
        ("./link", "venv/bin/python"),
        ("venv/bin/python", "venv/lib/evil.pth"),
    ],
)
def test_SE_a_configured_interpreter_that_came_with_the_project_is_an_error_and_not_run(
    project: Project, tmp_path: Path, python: str, synced: str
) -> None:
    Path(project.tree, "link").symlink_to("venv/bin/python")
    sync(project, synced)
    for spelling in (python, f"{project.tree}/{python}"):
        with pytest.raises(InterpreterFault, match="came with the project"):
            find_python(spelling, project)
        assert "came with the project" in read_interpreter(spelling, project).error
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "place",
    [
        "projects/speech-0badcafe/data/0123abcd/bin/python",
        "projects/speech-0badcafe/runs/plain-0123abcd/code/venv/bin/python",
        "projects/other-12345678/data/0123abcd/venv/bin/python",
        "projects/speech-0badcafe/large/../data/0123abcd/python",
    ],
)
@pytest.mark.parametrize("linked", [False, True])
def test_SE_an_interpreter_in_data_or_in_the_copied_code_of_a_run_is_an_error_and_not_run(
    project: Project, tmp_path: Path, place: str, linked: bool
) -> None:
    Path(project.root, "large").mkdir()
    program = tmp_path / place
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    link = tmp_path / "python"
    link.symlink_to(program)
    sync(project, "train.py")
    named = str(link if linked else program)
    with pytest.raises(InterpreterFault, match="came with the project"):
        find_python(named, project)
    assert "came with the project" in read_interpreter(named, project).error
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["projects/speech-0badcafe/runs/plain/venv/bin/python", "projects/data/tools/python"])
def test_an_interpreter_elsewhere_below_the_workdir_is_used(project: Project, tmp_path: Path, place: str) -> None:
    assert find_python(str(tmp_path / place), project) == str(tmp_path / place)


def test_an_interpreter_that_was_made_on_the_host_is_used(project: Project) -> None:
    sync(project, "train.py", "requirements.txt")
    program = Path(project.tree, "venv/bin/python")
    program.unlink()
    program.symlink_to(sys.executable)
    for python in ("", "venv/bin/python", str(program)):
        assert read_interpreter(python, project).version == sys.version_info[:3]
