"""`tensorboard`: one JSON object once it listens; a port in use is an error before anything starts."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.messages.hints import install_command
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from tests.contracts.project_modules import ROOT
from tests.lab.sshd import nobody_listens

RUN = "plain-0123abcd"
# A minimal TensorBoard, which answers and also prints to stdout.
STAND_IN = """
import argparse, functools, http.server
parser = argparse.ArgumentParser()
for name in ("--logdir", "--host", "--port", "--reload_interval"):
    parser.add_argument(name)
told = parser.parse_args()
print("a line on stdout", flush=True)
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=told.logdir)
http.server.HTTPServer((told.host, int(told.port)), handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("prefix", "uv", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/halfstep", "/usr/bin/uv", "pipx inject halfstep tensorboard"),
        ("/home/me/tools/halfstep", "/usr/bin/uv", "uv pip install --python /v/bin/python tensorboard"),
        ("/home/me/venv", None, "/v/bin/python -m pip install tensorboard"),
    ],
)
def test_tensorboard_is_installed_by_the_program_that_installed_halfstep(
    prefix: str, uv: str | None, command: str
) -> None:
    assert install_command("tensorboard", prefix, "/v/bin/python", uv) == command


def write_tensorboard(folder: Path, program: str) -> None:
    """A package `tensorboard` in the folder whose `tensorboard.main` is that program."""
    (folder / "tensorboard").mkdir(parents=True)
    (folder / "tensorboard/__init__.py").write_text("")
    (folder / "tensorboard/main.py").write_text(program)


def environment_with(folder: Path) -> str:
    """Return the interpreter of a virtual environment that also has the packages of the folder."""
    base = Path(sys.executable).resolve()
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder.parent / "venv")}))
    (folder.parent / "venv/bin").mkdir(parents=True)
    (folder.parent / "venv/bin/python").symlink_to(base)
    (folder.parent / "venv/pyvenv.cfg").write_text(f"home = {base.parent}\n")
    packages.mkdir(parents=True)
    (packages / "ours.pth").write_text(f"{folder}\n{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return str(folder.parent / "venv/bin/python")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A project with a run on a host that does not answer, and a replacement for TensorBoard."""
    write_tensorboard(tmp_path / "lib", STAND_IN)
    with nobody_listens() as port:
        nobody = {"host": "127.0.0.1", "port": port}
        write_note(Records(tmp_path), RunNote(RUN, "titan", "plain", "p-1", 1.0, nobody))
        yield tmp_path


@pytest.mark.parametrize("searched", ["working folder", "PYTHONPATH"])
def test_SE_03_the_object_says_where_to_look_and_no_tensorboard_of_the_project_is_run(
    project: Path, searched: str
) -> None:
    stray = project / ("src" if searched == "PYTHONPATH" else ".")
    write_tensorboard(stray, f"open({str(project / 'ran')!r}, 'w')\n")
    verb = subprocess.Popen(
        [environment_with(project / "lib"), "-P", "-m", "pipeline", "tensorboard", "--port", "0", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src") if searched == "PYTHONPATH" else ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert verb.stdout and verb.stderr
    try:
        printed = json.loads(verb.stdout.readline())
        assert (printed["command"], printed["ok"], printed["run"]) == ("tensorboard", True, RUN)
        assert printed["mirror"] == str(project / ".halfstep" / "runs" / RUN)
        with urllib.request.urlopen(f"{printed['address']}{RUN}/run.json", timeout=60) as answer:
            assert json.load(answer)["run"] == RUN
        while b"is unreachable" not in (line := verb.stderr.readline()):
            assert line, "the host that is off was not told"
        verb.send_signal(signal.SIGINT)
        out, _ = verb.communicate(timeout=60)
        assert (verb.returncode, out) == (130, b"")
        assert not (project / "ran").exists()
    finally:
        verb.kill()
        verb.communicate()


def test_a_port_that_is_taken_is_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project / "lib")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["tensorboard", "--port", str(port), "--json"]) == 60
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["check"], finding["message"]) == ("busy", f"port {port} is in use")
    assert finding["hint"] == f"pipeline tensorboard {RUN} --port 0"
