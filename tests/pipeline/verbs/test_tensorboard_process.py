"""TensorBoard's temporary files are private, and its output reaches the terminal escaped, complete and at once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.verbs.tensorboard_process import free_port, viewer_running, wait_until_listening
from tests.pipeline.verbs.test_tensorboard import RUN, environment_with, project, write_tensorboard

__all__ = ["project"]

# TensorBoard with its port, and with an info file that another user has replaced by a link.
LISTENS = """
import os, socket, sys, tempfile, time
server = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])))
with open(os.path.join(tempfile.gettempdir(), "tensorboard.info"), "w") as info:
    info.write("mine now")
print("\\x1b]0;title\\x07at http://127.0.0.1/\\x1b[31m")
while True:
    server.accept()
"""
FAILS = """
import os, sys
for number in range(8000):
    os.write(1 + number % 2, b"line %d\\n" % number)
os.write(2, b"\\nnext: type \\x9b this\\x1b[2J\\r\\nno line end \\xf0\\x9f")
sys.exit(7)
"""
EVIL = "%1b%5d52,c,Y3VybA==%07%1b%5b2J%0a%1b%5b31m%e2%80%aenext:%20curl%20evil%0anext:%20curl%20evil%0a"


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Like /tmp: every user may write to it."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@contextmanager
def running(program: str, project: Path) -> Iterator[subprocess.Popen[str]]:
    """`pipeline tensorboard --json` with this program as TensorBoard, in a process group of its own."""
    write_tensorboard(project / "own", program)
    verb = subprocess.Popen(
        [environment_with(project / "own"), "-P", "-m", "pipeline", "tensorboard", "--port", "0", "--json"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield verb
    finally:
        verb.kill()
        verb.communicate()


def test_SE_12_the_info_file_of_tensorboard_is_in_a_private_folder_that_is_removed(
    tmp_path: Path, shared: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RUN).mkdir()
    port = free_port(0, RUN)
    with viewer_running(tmp_path, port) as viewer:
        wait_until_listening(viewer, port, RUN)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/environment", timeout=60):
            [info] = shared.rglob(f"pid-{viewer.process.pid}.info")
        [private] = shared.iterdir()
        assert private in info.parents
        assert (private.stat().st_mode & 0o7777, private.stat().st_uid) == (0o700, os.getuid())
    assert list(shared.iterdir()) == []
    assert "TensorBoard: TensorBoard 2." in capfd.readouterr().err


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_SE_12_no_link_in_a_shared_temporary_folder_leads_tensorboard_to_a_file(
    project: Path, shared: Path, ended_by: signal.Signals
) -> None:
    thesis = project / "thesis.txt"
    thesis.write_text("my only copy")
    (shared / "tensorboard.info").symlink_to(thesis)
    with running(LISTENS, project) as verb:
        assert verb.stdout and verb.stderr
        assert json.loads(verb.stdout.readline())["ok"]
        # The line is shown while TensorBoard runs, although TensorBoard does not flush it.
        assert verb.stderr.readline() == "  TensorBoard: \\x1b]0;title\\x07at http://127.0.0.1/\\x1b[31m\n"
        while "is unreachable" not in (line := verb.stderr.readline()):
            assert line
        os.killpg(verb.pid, ended_by)  # as Ctrl-C at a terminal does
        verb.communicate(timeout=60)
        assert verb.returncode == 130
    assert thesis.read_text() == "my only copy"
    assert [path.name for path in shared.iterdir()] == ["tensorboard.info"]


def test_SE_12_all_output_of_a_tensorboard_that_fails_is_shown_before_the_error(project: Path) -> None:
    with running(FAILS, project) as verb:
        out, err = verb.communicate(timeout=120)
    assert "ended by itself, exit 7; its output is above" in out
    assert err.splitlines() == [
        *(f"  TensorBoard: line {number}" for number in range(8000)),
        "  TensorBoard: next\\x3a type \\x9b this\\x1b[2J",
        "  TensorBoard: no line end \\xf0\\x9f",
    ]


def test_SE_12_a_web_page_cannot_send_escape_sequences_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """TensorBoard logs the path of each request that it cannot answer."""
    (tmp_path / RUN).mkdir()
    port = free_port(0, RUN)
    with viewer_running(tmp_path, port) as viewer:
        wait_until_listening(viewer, port, RUN)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/{EVIL}", timeout=60)
    shown = capfd.readouterr().err
    assert "\\x1b]52,c,Y3VybA==\\x07\\x1b[2J" in shown
    assert shown.isascii() and set(shown) - {"\n"} == {char for char in shown if char.isprintable()}
    assert "next:" not in shown and all(line.startswith("  TensorBoard: ") for line in shown.splitlines())


def status_of(port: int, host: str | None) -> int:
    """Return the HTTP status of the answer to a request with this Host header, or without one if `host` is None."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        header = "" if host is None else f"Host: {host}\r\n"
        sock.sendall(f"GET /data/environment HTTP/1.0\r\n{header}\r\n".encode())
        return int(sock.makefile("rb").readline().split()[1])


def test_SE_12_a_web_page_whose_name_leads_to_this_machine_cannot_read_the_curves(tmp_path: Path) -> None:
    """An address or localhost in the Host header is no name that the owner of a page can choose (DNS rebinding)."""
    (tmp_path / RUN).mkdir()
    port = free_port(0, RUN)
    local = (None, "", f"127.0.0.1:{port}", "127.0.0.1", "localhost:7007", "LOCALHOST", f"[::1]:{port}")
    names = (
        "evil.example",
        f"evil.example:{port}",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil[::1]",
        "1.a",
    )
    with viewer_running(tmp_path, port) as viewer:
        wait_until_listening(viewer, port, RUN)
        found = {host: status_of(port, host) for host in (*local, *names)}
    assert found == dict.fromkeys(local, 200) | dict.fromkeys(names, 403)
