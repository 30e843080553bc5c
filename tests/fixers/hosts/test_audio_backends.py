"""The packages with which a project decodes audio, and whether the host has them."""

import json
import subprocess
import sys

import pytest

from fixers.setup import audio_backends
from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.package_index import wheel
from tests.lab.payload import install_payload


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    yield agent
    agent.close()


def test_the_libraries_of_ffmpeg_are_searched_where_the_loader_finds_them(host, tmp_path):
    before = set(host.ask("fix.audio.look", {"environment": {}})["ffmpeg"])
    (tmp_path / "libavutil.so.60").write_bytes(b"")
    (tmp_path / "libavutil.so.12").write_bytes(b"")
    after = host.ask("fix.audio.look", {"environment": {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"}})["ffmpeg"]
    assert set(after) == before | {8}


def test_an_interpreter_outside_the_project_is_reported_and_left(host):
    survey = survey_of(interpreter=Interpreter("/usr/bin/python3", packages={"torch": "2.9.0"}))
    plan = audio_backends.plan(site_at(host, {"a.py": b"import soundfile"}, survey=survey))
    assert plan.empty
    assert [finding.severity for finding in plan.findings] == [Severity.ERROR]
    assert plan.findings[0].hint.startswith("(cd / && /usr/bin/python3 -m pip install soundfile)   (on the host), or ")


def test_a_project_without_audio_has_no_finding(host):
    assert audio_backends.plan(site_at(host, {"a.py": b"import torch"})) == audio_backends.Plan()


@pytest.fixture
def venv(host, tmp_path):
    """A venv of halfstep's own in the host's tree, and a folder of wheels."""
    path = f"{host.workdir}/{PROJECT.tree}/venv"
    subprocess.run([sys.executable, "-m", "venv", path], check=True)
    host.write_bytes(f"{PROJECT.tree}/venv/halfstep.json", json.dumps({"state": "done", "recipe": "x"}).encode())
    wheels = tmp_path / "host" / PROJECT.tree / "wheels"
    wheels.mkdir()
    wheel(wheels, "needed", "1.0", "")
    wheel(wheels, "soundfile", "0.13.1", "", requires=("needed",))
    return path


def test_what_is_missing_in_our_own_venv_is_installed_and_uninstalled_by_undo(host, venv):
    survey = survey_of(interpreter=Interpreter(f"{venv}/bin/python", packages={"torch": "2.9.0"}))
    plan = audio_backends.plan(site_at(host, {"a.py": b"import soundfile"}, survey=survey))
    (change,) = plan.changes
    assert change.args["packages"] == ["soundfile"]
    assert [finding.severity for finding in plan.findings] == [Severity.INFO]
    wheels = f"{PROJECT.tree}/wheels"
    assert host.act(change.op, {**change.args, "find_links": wheels})["installed"] == ["needed", "soundfile"]
    subprocess.run([f"{venv}/bin/python", "-c", "import soundfile, needed"], check=True)
    assert host.act(change.op, {**change.args, "find_links": wheels})["installed"] == []
    undone = host.act("fix.undo", {"project": PROJECT.key, "fixer": "audio-backends"})
    assert undone == {"restored": ["needed", "soundfile"]}
    gone = subprocess.run([f"{venv}/bin/python", "-c", "import soundfile"], capture_output=True, check=False)
    assert gone.returncode == 1


def test_nothing_is_installed_into_a_venv_that_is_not_ours(host):
    venv = f"{host.workdir}/{PROJECT.tree}/venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    args = {
        "project": PROJECT.key,
        "fixer": "audio-backends",
        "python": f"{venv}/bin/python",
        "packages": ["soundfile"],
    }
    with pytest.raises(RemoteFault, match="not made by halfstep"):
        host.act("fix.packages.install", args)
