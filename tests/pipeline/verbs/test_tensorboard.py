"""`tensorboard`: one JSON object once it listens; a port in use is an error before anything starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.messages.hints import install_command
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.show.local_program import start_printing
from pipeline.verbs.tensorboard import refuse_redirects, tensorboard
from pipeline.verbs.tensorboard_process import VIEWER_BYTES, Viewer, viewer_running, wait_until_listening
from remote.errors import BadUsage, ToolFailed
from tests.contracts.project_modules import ROOT
from tests.lab.sshd import nobody_listens

RUN = "plain-0123abcd"
# A minimal TensorBoard, which answers and also prints to stdout.
STAND_IN = """
import argparse, functools, http.server
parser = argparse.ArgumentParser()
for name in ("--logdir", "--host", "--port", "--reload_interval"):
    parser.add_argument(name)
options = parser.parse_args()
print("a line on stdout", flush=True)
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=options.logdir)
http.server.HTTPServer((options.host, int(options.port)), handler).serve_forever()
"""


@pytest.mark.parametrize(
    ("prefix", "uv", "command"),
    [
        ("/home/me/.local/share/pipx/venvs/halfstep", "/usr/bin/uv", "(cd / && pipx inject halfstep tensorboard)"),
        ("/home/me/tools/halfstep", "/usr/bin/uv", "(cd / && uv pip install --python /v/bin/python tensorboard)"),
        ("/home/me/venv", None, "(cd / && /v/bin/python -m pip install tensorboard)"),
    ],
)
def test_tensorboard_is_installed_by_the_program_that_installed_halfstep(
    prefix: str, uv: str | None, command: str
) -> None:
    assert install_command("tensorboard", prefix, "/v/bin/python", uv) == command


SERVER = """
from absl import flags

class TensorBoard:
    def __init__(self, plugins, server_class): assert plugins == ["static"]
    def configure(self, argv): return flags.FLAGS(argv[:1]) and argv
    def main(self, argv): exec(PROGRAM, globals())
"""


def write_tensorboard(folder: Path, program: str) -> None:
    """A package `tensorboard` in the folder whose server is that program."""
    (folder / "tensorboard").mkdir(parents=True)
    (folder / "tensorboard/__init__.py").write_text("")
    (folder / "tensorboard/main_lib.py").write_text("def global_init(): pass\n")
    (folder / "tensorboard/default.py").write_text("def get_static_plugins(): return ['static']\n")
    (folder / "tensorboard/program.py").write_text(f"PROGRAM = {program!r}\n{SERVER}")


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


@pytest.mark.parametrize(
    ("searched", "ended_by"), [("working folder", signal.SIGINT), ("PYTHONPATH", signal.SIGTERM), ("", signal.SIGHUP)]
)
def test_SE_03_the_object_says_where_to_look_and_no_tensorboard_of_the_project_is_run(
    project: Path, searched: str, ended_by: signal.Signals
) -> None:
    stray = project / ("src" if searched == "PYTHONPATH" else ".")
    write_tensorboard(stray, "")
    (stray / "tensorboard/__init__.py").write_text(f"open({str(project / 'ran')!r}, 'w')\n")
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
        verb.send_signal(ended_by)
        out, _ = verb.communicate(timeout=60)  # TensorBoard has the other end of stderr: this waits for its end too
        assert (verb.returncode, out) == (130, b"")
        assert not (project / "ran").exists()
    finally:
        verb.kill()
        verb.communicate()


PLANTED = (
    *("{}/tensorboard/events.out.tfevents.1", "{}/tensorboard", "{}/other", "{}/jobs/1/deep", "other-0123abcd"),
    *("{}/adapter", "stray"),
)


@pytest.mark.parametrize("kind", ["file", "folder", "missing"])
@pytest.mark.parametrize("place", PLANTED)
def test_SE_12_tensorboard_does_not_start_if_a_link_is_anywhere_below_the_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str, kind: str
) -> None:
    target = project / "elsewhere"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
        (target / "events.out.tfevents.1").write_bytes(b"")
    link = project / ".halfstep/runs" / place.format(RUN)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    monkeypatch.chdir(project)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert run(["tensorboard", "--port", "0", "--json"]) == 2
    [finding] = json.loads(capsys.readouterr().out)["findings"]
    assert str(link) in finding["message"] and "is a symbolic link" in finding["message"]
    assert finding["hint"] == f"rm -r {link}"


def test_SE_12_no_plugin_of_tensorboard_opens_the_paths_in_files_of_a_run(tmp_path: Path) -> None:
    """Plugins of other packages, and the projector, are entry points. They read more than event files."""
    (tmp_path / RUN).mkdir()
    (tmp_path / "secret.tsv").write_text("a secret\n")
    (tmp_path / RUN / "projector_config.pbtxt").write_text(
        f'embeddings {{ tensor_name: "x" metadata_path: "{tmp_path}/secret.tsv" }}'
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with viewer_running(tmp_path, port) as viewer:
        wait_until_listening(viewer, port, RUN)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugins_listing", timeout=60) as answer:
            plugins = json.load(answer)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugin/projector/runs", timeout=60)
    assert {"scalars", "timeseries", "hparams"} <= set(plugins) and "projector" not in plugins


@pytest.mark.parametrize("mode", [0o775, 0o777, 0o2755])
def test_SE_12_the_open_folders_of_an_older_version_are_closed_before_tensorboard_starts(
    project: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    runs = project / ".halfstep/runs"
    below = [runs / RUN / "tensorboard", runs / RUN / "jobs/1/deep", runs / "other-0123abcd"]
    for folder in below:
        folder.mkdir(parents=True)
        folder.chmod(mode)
    monkeypatch.chdir(project)
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(TypeError):
        tensorboard(RUN, port=0)
    assert {stat.S_IMODE(folder.stat().st_mode) & 0o777 for folder in below} == {0o700}


def test_SE_12_a_fifo_in_place_of_an_event_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / RUN).mkdir()
    os.mkfifo(tmp_path / RUN / "events.out.tfevents.1")
    with pytest.raises(BadUsage, match="is not a regular file"):
        refuse_redirects(tmp_path, {os.getuid()})


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


def test_SE_09_tensorboard_has_a_limited_address_space(tmp_path: Path) -> None:
    """It keeps every tag: 13 MB of event files with a million tags took 1.9 GB."""
    with viewer_running(tmp_path, 6006) as viewer:
        limits = Path(f"/proc/{viewer.process.pid}/limits").read_text()
    row = next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert row.split()[3:5] == [str(VIEWER_BYTES)] * 2


SQUATTER = """
import socket, subprocess, sys
port = sys.argv[sys.argv.index("--port") + 1]
served = ["-m", "http.server", port, "--bind", "127.0.0.1"]
other = subprocess.Popen([sys.executable, *served], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while True:
    try:
        socket.create_connection(("127.0.0.1", int(port))).close()
        break
    except OSError:
        pass
for _ in range(20):
    subprocess.run([sys.executable, "-c", ""])
other.kill()
other.wait()
sys.exit(255)
"""


def test_SE_22_the_address_of_a_port_that_another_program_took_is_not_printed(project: Path) -> None:
    shutil.rmtree(project / "lib")
    write_tensorboard(project / "lib", SQUATTER)
    done = subprocess.run(
        [environment_with(project / "lib"), "-P", "-m", "pipeline", "tensorboard", "--port", "0", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode not in (0, None)
    assert "http://" not in done.stdout
    assert "ended by itself, exit 255" in done.stdout + done.stderr


def test_SE_22_no_connection_is_made_to_a_port_that_another_program_took() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
        assert process.stdout is not None
        viewer = Viewer(process, start_printing(process.stdout, "TensorBoard"))
        with pytest.raises(ToolFailed, match="ended by itself, exit 0"):
            wait_until_listening(viewer, other.getsockname()[1], RUN)
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.root
@pytest.mark.parametrize("given", ["evil", "evil/events.out.tfevents.1"])
def test_SE_a_folder_or_file_of_another_user_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "events.out.tfevents.1").touch()
    refuse_redirects(tmp_path, {os.getuid()})
    os.chown(tmp_path / given, 65534, 65534)
    with pytest.raises(BadUsage, match="belongs to another user"):
        refuse_redirects(tmp_path, {os.getuid()})
    refuse_redirects(tmp_path, {os.getuid(), 65534})
