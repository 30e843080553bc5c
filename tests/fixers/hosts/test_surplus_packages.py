"""Packages that the requirements no longer need are removed from the venv that halfstep created."""

import io
import json
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from remote.payload.fix.requirements import list_requirements
from remote.protocol.machine import Interpreter, Torch
from tests.fixers.hosts.local_wheels import ARCHITECTURES, host, imports, site_of, venv
from tests.fixers.setup_rig import PROJECT, MemoryTree
from tests.lab.package_index import wheel

__all__ = ["host"]

WHEELS = {
    "vocoder": ("1.0", "", ["melkit", "speechkit[fast]"]),
    "melkit": ("2.0", "", ()),
    "fastpart": ("1.0", "", ()),
    "torchaudio": ("2.11.0", "", ()),
}


@pytest.fixture
def wheels(host):
    folder = Path(host.workdir) / PROJECT.tree / "wheels"
    for name, (version, code, requires) in WHEELS.items():
        wheel(folder, name, version, code, requires)
    return folder


def install(host, requirements, **setting):
    """Install the requirements as `run` would, and return the notes. An existing venv is kept."""
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", requirements.encode())
    site = replace(site_of(host, **setting), tree=MemoryTree({"requirements.txt": requirements.encode()}))
    if Path(venv(host)).exists():
        torch = Torch("2.11.0", "12.8", ("sm_75",))
        path = site.survey.interpreter.path
        site = replace(site, survey=replace(site.survey, interpreter=Interpreter(path, torch=torch)))
    (change,) = environment.plan(site).changes
    events = []
    host.act(change.op, change.args, on_event=events.append)
    return [event["note"] for event in events if "note" in event]


def installed(host):
    listed = subprocess.run(
        [f"{venv(host)}/bin/python", "-m", "pip", "list", "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {one["name"].replace("_", "-") for one in json.loads(listed.stdout)} - {"pip", "setuptools", "wheel"}


REMOVED = "removed from venv, because the requirements do not need them: "


@pytest.mark.parametrize(
    ("before", "after", "left", "removed"),
    [
        ("vocoder\nspeechkit\n", "speechkit\n", {"torch", "speechkit"}, "melkit, vocoder"),
        ("vocoder\nmelkit\n", "melkit\n", {"torch", "melkit"}, "speechkit, vocoder"),
        ("melkit\n", "melkit==2.0  # pinned\n", {"torch", "melkit"}, None),
        ("melkit\n", "vocoder\n", {"torch", "melkit", "speechkit", "vocoder"}, None),
        ("melkit\nspeechkit\n", "Speech_Kit; python_version > '3'\nspeechkit", {"torch", "speechkit"}, "melkit"),
        ("melkit\n", "-r more/other.txt\n", {"torch", "melkit"}, None),
        ("melkit\n./wheels/fastpart-1.0-py3-none-any.whl\n", "speechkit\n", {"torch", "speechkit", "fastpart"},
         "melkit"),
    ],
)  # fmt: skip
def test_packages_of_earlier_requirements_are_removed_unless_they_are_needed(
    host, wheels, before, after, left, removed
):
    wheel(wheels, "Speech_Kit", "1.0", "")
    host.write_bytes(f"{PROJECT.tree}/more/other.txt", b"melkit\n")
    install(host, before)
    notes = install(host, after)
    assert installed(host) - {"Speech-Kit"} == left
    assert [note for note in notes if note.startswith("removed")] == ([REMOVED + removed] if removed else [])


def test_packages_that_the_user_installed_are_kept_with_their_dependencies(host, wheels):
    install(host, "speechkit\nmelkit\nfastpart\n")
    argv = [f"{venv(host)}/bin/pip", "install", "--no-index", "--find-links", str(wheels), "vocoder"]
    subprocess.run(argv, check=True, capture_output=True)
    install(host, "torch\n")
    assert installed(host) == {"torch", "vocoder", "melkit", "speechkit"}


def test_a_venv_that_an_older_halfstep_marked_loses_nothing(host, wheels):
    install(host, "melkit\n")
    mark = Path(venv(host), "halfstep.json")
    kept = {key: value for key, value in json.loads(mark.read_text()).items() if key != "packages"}
    mark.write_text(json.dumps(kept))
    install(host, "speechkit\n")
    assert installed(host) == {"torch", "melkit", "speechkit"}
    install(host, "torch\n")
    assert installed(host) == {"torch", "melkit"}


def test_packages_of_an_installation_that_failed_are_removed_later(host, wheels):
    install(host, "speechkit\n")
    with pytest.raises(RemoteFault):
        install(host, "speechkit\nno-such-package\n")
    unfinished = json.loads(Path(venv(host), "halfstep.json").read_text())
    assert unfinished["state"] == "unfinished" and unfinished["foreign"] == []
    subprocess.run(
        [f"{venv(host)}/bin/pip", "install", "--no-index", "--find-links", str(wheels), "melkit"],
        check=True, capture_output=True,
    )  # fmt: skip
    install(host, "torch\n")
    assert installed(host) == {"torch"}


def test_a_package_that_shares_files_with_a_needed_package_stays(host, wheels):
    wheel(wheels, "cv2", "1.0", "")
    for name in ("opencv", "opencv_headless"):
        written = (wheels / "cv2-1.0-py3-none-any.whl").read_bytes()
        (wheels / f"{name}-1.0-py3-none-any.whl").write_bytes(_renamed(written, name))
    install(host, "opencv\nmelkit\n")
    assert install(host, "opencv-headless\n") == [REMOVED + "melkit"]
    imports(host, "cv2")
    assert installed(host) == {"torch", "opencv", "opencv-headless"}


def _renamed(data, name):
    """Return the wheel of cv2 as a wheel of another package with the same module."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(result, "w") as target:
        for each in source.namelist():
            content = source.read(each).replace(b"Name: cv2", b"Name: " + name.encode())
            target.writestr(each.replace("cv2-1.0", f"{name}-1.0"), content)
    return result.getvalue()


def test_a_torchaudio_beside_a_new_torch_is_installed_again(host, wheels):
    for build in ("cu128", "cpu"):
        wheel(wheels, "torch", f"2.11.0+{build}", ARCHITECTURES.format(["sm_75"]))
    install(host, "torchaudio\n", torch="2.11.0+cu128")
    notes = install(host, "torchaudio\n", torch="2.11.0+cpu")
    assert "installing torchaudio again, for the new torch" in notes
    assert installed(host) == {"torch", "torchaudio"}
    notes = install(host, "melkit\n", torch="2.11.0+cu128")
    assert notes == [REMOVED + "torchaudio"]
    assert installed(host) == {"torch", "melkit"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("torch>=2 # new\n\n# old\nsix==1 --hash=sha256:00 \\\n  --hash=sha256:11\n-e .\n", ["torch>=2", "six==1"]),
        ("-r more.txt\n-c pins.txt\n", ["idna"]),
        ("-r requirements.txt\nsix\n", ["six"]),
        ("-r http://example.org/more.txt\nsix\n", None),
        ("-r missing.txt\nsix\n", None),
    ],
)
def test_the_requirements_are_read_from_all_files_or_not_known(tmp_path, text, lines):
    for name, content in {"requirements.txt": text, "more.txt": "idna\n", "pins.txt": "torch==1\n"}.items():
        (tmp_path / name).write_text(content)
    assert list_requirements(str(tmp_path), ["requirements.txt"]) == lines
