"""`pipeline tensorboard`: run TensorBoard on the local copies of all runs, and update the copy of one run live."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import UNREACHABLE, OpenRun, open_note
from pipeline.hosts.which_run import judge_others
from pipeline.messages.errors import outcome_of_error
from pipeline.messages.hints import install_command
from pipeline.messages.outcome import Outcome
from pipeline.records.find_run import named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, list_notes
from pipeline.show.screen import Screen
from remote.errors import BadUsage, Busy, HalfstepError, Interrupted, ToolFailed
from remote.project.records_folder import close_folders, create_folder, trusted_owners
from remote.protocol.quantities import count, size
from remote.protocol.shell import shell_command
from remote.pull.live import follow_events

VIEWER_BYTES = 4 * 2**30
"""The address space of each process of TensorBoard, on Linux. Without curves, it takes 0.7 GB."""
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1"}
"""Without these variables, each core of the machine would take address space."""
VIEWER_END_S = 5.0
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end the verb as Ctrl-C does: by default, they would end it without TensorBoard."""
VIEWER = """
from absl import app
from tensorboard import default, main_lib, program

main_lib.global_init()
viewer = program.TensorBoard(plugins=default.get_static_plugins())
app.run(viewer.main, flags_parser=viewer.configure)
"""
"""`tensorboard.main` without the plugins that are entry points of packages.

One of them, the projector, opens the paths that files of a run contain. The others read event files only.
"""
LOOPBACK = "127.0.0.1"
LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp."""
RELOAD = 'the page shows new values if you click its reload button, or every 30 s if its setting "Reload data" is on'


def tensorboard(run: str | None = None, port: int = 6006, as_json: bool = False) -> int:
    """Run TensorBoard and print its address. Ctrl-C ends TensorBoard; the job keeps running."""
    screen = Screen(as_json=as_json)
    if importlib.util.find_spec("tensorboard") is None:
        hint = install_command("tensorboard", sys.prefix, sys.executable, shutil.which("uv"))
        raise ToolFailed("TensorBoard is not installed in the environment of halfstep", hint=hint)
    note, records = named_run(run, Path.cwd())
    folder = records.folder_named(note.name)
    create_folder(folder)
    close_folders(records.runs)
    refuse_redirects(records.runs, trusted_owners(records.root))
    port = free_port(port, note.name)
    with _viewer(records.runs, port) as viewer:
        _wait_until_listening(viewer, port, note.name)
        address = f"http://{LOOPBACK}:{port}/"
        screen.note(f"the curves of {count(len(list_notes(records)), 'run')}: {address}")
        screen.note(f"the curves of {note.name} are updated live; {RELOAD}")
        if as_json:
            more = {"address": address, "mirror": str(folder)}
            screen.closing(Outcome("tensorboard", host=note.host, config=note.config, run=note.name, more=more))
        with _end_on_stderr(as_json):
            _keep_live(run, (note, records), screen, viewer)
            viewer.wait()
            raise _ended(viewer, note.name)


def refuse_redirects(runs: Path, owners: Collection[int]) -> None:
    """Raise BadUsage for a file or folder with which TensorBoard would show files from outside of the runs.

    A cloned project may contain it. TensorBoard follows links, and waits for the writer of a FIFO. A user who is not in
    `owners` could put such a file into an own folder later.
    """
    for folder, folders, files in os.walk(runs):
        for path in (Path(folder, name) for name in (*folders, *files)):
            with contextlib.suppress(FileNotFoundError):  # a concurrent download renames its files
                status = path.lstat()
                reason = _redirect(status.st_mode)
                if status.st_uid not in owners:
                    reason = reason or "belongs to another user"
                if reason:
                    message = f"{path} {reason}, so TensorBoard could show files from outside of the project's runs"
                    raise BadUsage(message, where=str(path), hint=shell_command("rm -r {}", path))


def _redirect(mode: int) -> str:
    """Return the reason for which TensorBoard must not see the file, or ""."""
    if stat.S_ISLNK(mode):
        return "is a symbolic link"
    return "" if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else "is not a regular file"


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


@contextlib.contextmanager
def _viewer(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run TensorBoard on the folder of all runs until the end of the block.

    Its output goes to stderr. TensorBoard is imported from halfstep's environment; the working folder and PYTHONPATH
    are not searched. Its memory is limited, because it keeps every tag that a host sends.
    """
    viewer = subprocess.Popen(
        [sys.executable, "-P", "-E", "-c", VIEWER, "--logdir", str(folder), "--host", LOOPBACK,
         "--port", str(port), "--reload_interval", "2"],
        stdout=2,
        cwd="/",
        env={**os.environ, **FEW_ARENAS},
    )  # fmt: skip
    with contextlib.suppress(AttributeError, OSError):  # only Linux limits another process, and its later children
        resource.prlimit(viewer.pid, resource.RLIMIT_AS, (VIEWER_BYTES, VIEWER_BYTES))
    ends = {name: signal.signal(name, signal.default_int_handler) for name in ENDING_SIGNALS}
    try:
        yield viewer
    finally:
        for name, handler in ends.items():
            signal.signal(name, handler)
        viewer.terminate()
        try:
            viewer.wait(timeout=VIEWER_END_S)
        except subprocess.TimeoutExpired:
            viewer.kill()
            viewer.wait()


def _wait_until_listening(viewer: subprocess.Popen[bytes], port: int, run: str) -> None:
    """Wait until TensorBoard listens. Raises ToolFailed if TensorBoard ends first.

    Another user's program may take the port before TensorBoard does. It is never connected to on Linux; elsewhere, the
    owner of a port is not known.
    """
    while viewer.poll() is None:
        if _listeners(port).isdisjoint(_sockets(viewer.pid)):
            time.sleep(0.1)
            continue
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
            return
        time.sleep(0.1)
    raise _ended(viewer, run)


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


def _ended(viewer: subprocess.Popen[bytes], run: str) -> ToolFailed:
    message = f"TensorBoard ended by itself, exit {viewer.returncode}; its output is above"
    return ToolFailed(message, where="tensorboard", hint=shell_command("pipeline tensorboard {} --port 0", run))


@contextlib.contextmanager
def _end_on_stderr(as_json: bool) -> Iterator[None]:
    """Report errors on stderr and by the exit code only, because the JSON object of --json was already printed."""
    try:
        yield
    except (HalfstepError, KeyboardInterrupt) as end:
        if not as_json:
            raise
        error = end if isinstance(end, HalfstepError) else Interrupted("interrupted")
        Screen(on_stderr=True).closing(outcome_of_error("tensorboard", error))
        raise SystemExit(int(error.exit_code)) from None


def _keep_live(
    run: str | None, selected: tuple[RunNote, Records], screen: Screen, viewer: subprocess.Popen[bytes]
) -> None:
    """Update the mirror until the job or TensorBoard ends."""
    note, records = selected
    try:
        with open_note(note, records, prompter=None if screen.as_json else screen, keep=False) as opened:
            survey, training = opened.look()
            for other in judge_others("tensorboard", run, note, survey.state, training):
                screen.note(f"{other.message}: {other.hint}")
            for finding in judge_begun(note, survey):
                screen.note(finding.message)
            _mirror(opened, screen, viewer)
    except HalfstepError as error:
        if error.exit_code not in UNREACHABLE:
            raise
        screen.note(f"{note.host} is unreachable ({error.message}): local curves are shown")


def _mirror(opened: OpenRun, screen: Screen, viewer: subprocess.Popen[bytes]) -> None:
    note = opened.note
    received = 0
    for new in follow_events(opened.host, note.project, note.run, opened.folder, retry=announcing_retries(screen)):
        received += len(new.records)
        screen.progress(f"{size(received)} of event files downloaded", received)
        if viewer.poll() is not None:
            return
