"""The TensorBoard process: its plugins, memory, temporary files, port and output."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.show.local_program import start_printing
from remote.errors import Busy, ToolFailed
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import shell_command

VIEWER_BYTES = 4 * 2**30
"""The address space of each process of TensorBoard, on Linux. Without curves, it takes 0.7 GB."""
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}
"""Without these variables, each core of the machine would take address space."""
VIEWER_END_S = 5.0
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end the verb as Ctrl-C does: by default, they would end it without TensorBoard."""
VIEWER = r"""
import re
from absl import app
from tensorboard import default, main_lib, program

def local_server(serve, flags):
    def answer(request, start_response):
        if re.fullmatch(r"(localhost|[0-9.]+|\[[0-9a-f:.]+\])?(:[0-9]*)?", request.get("HTTP_HOST", ""), re.IGNORECASE):
            return serve(request, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"TensorBoard is only available at http://127.0.0.1 and http://localhost, not at another name.\n"]
    return program.WerkzeugServer(answer, flags)

main_lib.global_init()
viewer = program.TensorBoard(plugins=default.get_static_plugins(), server_class=local_server)
app.run(viewer.main, flags_parser=viewer.configure)
"""
"""`tensorboard.main` without the plugins that are entry points of packages, and without answers at a domain name.

One of the plugins, the projector, opens the paths that files of a run contain. The others read event files only. A web
page whose name leads to 127.0.0.1 (DNS rebinding) could read every answer to it.
"""
LOOPBACK = "127.0.0.1"
LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def free_port(port: int, run: str) -> int:
    """Return `port` if it is free, or any free port if `port` is 0. Raises Busy."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"is not available: {error.strerror}"
            hint = shell_command("pipeline tensorboard {} --port 0", run)
            raise Busy(f"port {port} {why}", where=f"{LOOPBACK}:{port}", hint=hint) from None
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Viewer:
    """TensorBoard, and the thread that prints its output."""

    process: subprocess.Popen[bytes]
    printing: threading.Thread


@contextlib.contextmanager
def viewer_running(folder: Path, port: int) -> Iterator[Viewer]:
    """Run TensorBoard on the folder of all runs until the end of the block.

    Its output goes to stderr, escaped. TensorBoard is imported from halfstep's environment; the working folder and
    PYTHONPATH are not searched. Its memory is limited, because it keeps every tag that a host sends.

    Its temporary files are in a folder of mode 0700. TensorBoard writes `.tensorboard-info/pid-PID.info`, follows
    links, and makes the folder writable by everyone: in /tmp, another user could replace any file of this user by it.
    """
    with _signals_end_the_verb(), tempfile.TemporaryDirectory(prefix="halfstep-tb-", ignore_cleanup_errors=True) as own:
        process = subprocess.Popen(
            [sys.executable, "-P", "-E", "-u", "-c", VIEWER, "--logdir", str(folder), "--host", LOOPBACK,
             "--port", str(port), "--reload_interval", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**os.environ, **FEW_ARENAS, "TMPDIR": own},
        )  # fmt: skip
        assert process.stdout is not None
        with contextlib.suppress(AttributeError, OSError):  # only Linux limits another process, and its later children
            resource.prlimit(process.pid, resource.RLIMIT_AS, (VIEWER_BYTES, VIEWER_BYTES))
        viewer = Viewer(process, start_printing(process.stdout, "TensorBoard"))
        try:
            yield viewer
        finally:
            _end(viewer)


@contextlib.contextmanager
def _signals_end_the_verb() -> Iterator[None]:
    ends = {name: signal.signal(name, signal.default_int_handler) for name in ENDING_SIGNALS}
    try:
        yield
    finally:
        for name, handler in ends.items():
            signal.signal(name, handler)


def _end(viewer: Viewer) -> None:
    viewer.process.terminate()
    try:
        viewer.process.wait(timeout=VIEWER_END_S)
    except subprocess.TimeoutExpired:
        viewer.process.kill()
        viewer.process.wait()
    viewer.printing.join(VIEWER_END_S)


def wait_until_listening(viewer: Viewer, port: int, run: str) -> None:
    """Wait until TensorBoard listens. Raises ToolFailed if TensorBoard ends first.

    Another user's program may take the port before TensorBoard does. It is never connected to on Linux; elsewhere, the
    owner of a port is not known.
    """
    while viewer.process.poll() is None:
        if _listeners(port).isdisjoint(_sockets(viewer.process.pid)):
            time.sleep(0.1)
            continue
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
            return
        time.sleep(0.1)
    raise ended(viewer, run)


def ended(viewer: Viewer, run: str) -> ToolFailed:
    """Return the error for a TensorBoard that has ended by itself, after all of its output was printed."""
    viewer.printing.join(VIEWER_END_S)
    message = f"TensorBoard ended by itself, exit {viewer.process.returncode}; its output is above"
    return ToolFailed(message, where="tensorboard", hint=shell_command("pipeline tensorboard {} --port 0", run))


def _listeners(port: int) -> set[str]:
    """Return the sockets that listen at the port, as /proc names them, or {""} without /proc."""
    try:
        rows = Path("/proc/net/tcp").read_text(encoding="ascii").split("\n")[1:]
    except OSError:
        return {""}
    fields = [row.split() for row in rows if row]
    return {f"socket:[{row[9]}]" for row in fields if row[1].endswith(f":{port:04X}") and row[3] == LISTENING}


def _sockets(pid: int) -> set[str]:
    """Return the targets of the process's descriptors, and ""."""
    found = {""}
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(descriptor.readlink()))
    return found
