"""The probe finds the packages that the training imports, and searches no folder that others may write."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from remote.payload.files.records import write_record
from remote.payload.probes.import_path import MOST_FOLDERS, package_folders
from remote.payload.probes.python import StoredInterpreters, ask_interpreter, read_interpreter, store_interpreter
from remote.payload.tree.state import Project
from remote.protocol.layout import ProjectLayout


@pytest.fixture(autouse=True)
def no_module_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("PYTHONNOUSERSITE", raising=False)
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(str(tmp_path / "halfstep"), ProjectLayout("speech-0badcafe"))


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Return the interpreter of a new virtual environment without packages."""
    venv.create(tmp_path / "env", symlinks=True)
    return str(tmp_path / "env/bin/python")


def site_packages(python: str) -> Path:
    return next(Path(python).parent.parent.glob("lib/python3*/site-packages"))


def install_torch(folder: Path, version: str = "2.9.1") -> Path:
    """Write the files of torch that the probe reads."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch/version.py").write_text(f"__version__ = '{version}'\ncuda = '12.8'\n")
    (folder / "torch/__init__.py").touch()
    return folder


def torch_of(python: str, project: Project, python_path: str | None = None) -> str:
    """Return the version of torch that the probe finds, or ""."""
    interpreter = read_interpreter(python, project, python_path)
    assert interpreter.error == ""
    return interpreter.torch.version if interpreter.torch else ""


def imported_torch(python: str) -> str:
    """Return the version.py that a training of this process's environment imports, or ""."""
    find = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')"
    done = subprocess.run([python, "-c", find], cwd="/", capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["stack", "opt/site-packages", "torch.egg"])
def test_a_folder_of_any_name_that_a_pth_file_adds_is_searched(
    python: str, project: Project, tmp_path: Path, name: str
) -> None:
    folder = install_torch(tmp_path / name)
    assert torch_of(python, project) == ""
    (site_packages(python) / "box.pth").write_text(f"{folder}\n")
    assert imported_torch(python) == str(folder / "torch/__init__.py")
    assert torch_of(python, project) == "2.9.1"


def test_the_module_path_of_the_login_files_comes_before_the_packages_of_the_interpreter(
    python: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_torch(site_packages(python), "2.6.0")
    monkeypatch.setenv("PYTHONPATH", f"{install_torch(tmp_path / 'module/site-packages')}:/nowhere")
    assert imported_torch(python).startswith(f"{tmp_path}/module/")
    assert torch_of(python, project) == "2.9.1"


def test_the_module_path_of_the_host_file_replaces_that_of_the_login_files(
    python: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(install_torch(tmp_path / "login", "2.6.0")))
    configured = install_torch(tmp_path / "host")
    assert torch_of(python, project, str(configured)) == "2.9.1"
    assert torch_of(python, project, f"$PYTHONPATH:{configured}") == "2.6.0"
    assert torch_of(python, project, "src") == ""


def test_packages_installed_for_the_user_are_found_as_the_training_finds_them(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = os.path.join(sys.base_prefix, "bin/python3")
    user = tmp_path / f"user/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    install_torch(user, "2.9.9")
    assert imported_torch(base).startswith(str(user))
    assert torch_of(base, project) == "2.9.9"
    monkeypatch.setenv("PYTHONNOUSERSITE", "1")
    assert torch_of(base, project) != "2.9.9"


def test_SE_the_probe_searches_no_folder_that_others_may_write_and_none_of_the_project(
    python: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = install_torch(tmp_path / "shared")
    shared.chmod(0o777)
    inside = install_torch(Path(project.tree, "src"))
    (tmp_path / "link").symlink_to(inside)
    monkeypatch.chdir(install_torch(tmp_path / "here"))
    for entry in ("", ".", "src", str(shared), str(inside), f"{tmp_path}/link", f"{tmp_path}/a\0b"):
        assert torch_of(python, project, entry) == ""
        (site_packages(python) / "box.pth").write_text(f"{entry}\n".replace("\0", ""))
        assert torch_of(python, project) == ""


def test_SE_no_code_of_the_working_folder_or_of_the_module_path_runs_in_the_probe(
    python: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "module"):
        (tmp_path / folder).mkdir()
        for name in ("json", "sitecustomize", "usercustomize", "site", "torch"):
            (tmp_path / folder / f"{name}.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/module")
    assert torch_of(python, project) == ""
    assert not (tmp_path / "ran").exists()


def test_a_pth_file_that_is_added_later_is_seen_despite_the_stored_facts(
    python: str, project: Project, tmp_path: Path
) -> None:
    cache = project.at(project.layout.environment)
    os.makedirs(os.path.dirname(cache))
    store_interpreter(cache, python, ask_interpreter(python))
    assert torch_of(python, project) == ""
    (site_packages(python) / "late.pth").write_text(f"{install_torch(tmp_path / 'late')}\n")
    assert torch_of(python, project) == "2.9.1"
    write_record(cache, StoredInterpreters())
    assert torch_of(python, project) == "2.9.1"


def test_SE_a_module_path_of_many_folders_is_cut(project: Project, tmp_path: Path) -> None:
    for number in range(MOST_FOLDERS + 5):
        (tmp_path / str(number)).mkdir()
    value = os.pathsep.join(str(tmp_path / str(number)) for number in range(MOST_FOLDERS + 5))
    assert len(package_folders((), value, project)) == MOST_FOLDERS


@pytest.mark.parametrize("kind", ["fifo", "link to a fifo", "device", "folder", "dangling"])
def test_SE_a_special_file_in_a_folder_of_packages_is_not_opened(
    python: str, project: Project, tmp_path: Path, kind: str
) -> None:
    """A FIFO has no writer: to open it would wait without end."""
    (tmp_path / "pk/torch").mkdir(parents=True)
    (tmp_path / "pk/other-1.0.dist-info").mkdir()
    for file in (tmp_path / "pk/torch/version.py", tmp_path / "pk/other-1.0.dist-info/METADATA"):
        place_special(file, kind)
    assert torch_of(python, project, str(tmp_path / "pk")) == ""


def test_SE_a_special_file_does_not_hide_the_packages_of_other_folders(
    python: str, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "pk/torch").mkdir(parents=True)
    os.mkfifo(tmp_path / "pk/torch/version.py")
    install_torch(site_packages(python))
    assert torch_of(python, project, str(tmp_path / "pk")) == "2.9.1"


def place_special(file: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        target = {"link to a fifo": file.with_name("pipe"), "device": Path("/dev/zero"), "dangling": Path("nothing")}
        if kind == "link to a fifo":
            os.mkfifo(target[kind])
        file.symlink_to(target[kind])
