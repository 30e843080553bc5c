"""The laptop: `pipeline` is imported once, and every command runs in a fork of that process.

This saves half a second per command; otherwise the fork behaves like a new process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MOST = 65536


@dataclass
class Running:
    """A running command."""

    pid: int
    stdout: int
    stderr: int
    laptop: Laptop
    _status: int | None = None

    def wait(self) -> int:
        """Return the exit code, or minus the signal that ended the command."""
        if self._status is None:
            self._status = int(self.laptop.read()["status"])
        return self._status


class Laptop:
    """Runs one command at a time."""

    def __init__(self, modules: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, "-m", "tests.soak.laptop", str(theirs.fileno()), str(modules)]
            # Pipes, as in the forks: Python chooses the buffering of its streams when it starts.
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        self._line = ours

    def start(self, words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> Running:
        """Start a command; the caller closes its two streams."""
        order = {"words": words, "folder": str(folder), "environment": environment}
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        socket.send_fds(self._line, [json.dumps(order).encode()], [out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        return Running(self.read()["pid"], out, err, self)

    def read(self) -> dict[str, int]:
        answer: dict[str, int] = json.loads(self._line.recv(MOST))
        return answer

    def close(self) -> None:
        self._line.close()
        self._process.communicate()


def become(order: dict[str, object], out: int, err: int, modules: Path) -> NoReturn:
    """Run the command in the forked child. The first successful one writes the list of loaded modules."""
    os.setsid()
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(dict(order["environment"]))  # type: ignore[call-overload]
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 256)
    sys.argv = ["pipeline", *order["words"]]  # type: ignore[misc]
    code = 1
    try:
        code = importlib.import_module("pipeline.cli.main").main() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter itself would
        traceback.print_exc()
    finally:
        if not modules.exists() and code == 0:
            modules.write_text("\n".join(sys.modules))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def load(modules: Path) -> None:
    """Import the modules that an earlier command needed, once for all later ones."""
    if modules.exists():
        for name in modules.read_text().splitlines():
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def main(line: socket.socket, modules: Path) -> None:
    """Fork a child for each request, until the socket is closed."""
    loaded = False
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, MOST, 2)
        if not data:
            return
        if not loaded and modules.exists():
            load(modules)
            loaded = True
        pid = os.fork()
        if pid == 0:
            become(json.loads(data), descriptors[0], descriptors[1], modules)
        for one in descriptors:
            os.close(one)
        line.send(json.dumps({"pid": pid}).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.send(json.dumps({"status": status}).encode())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]))
