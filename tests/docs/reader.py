"""A simulated reader, who writes a page's files and types its commands at a terminal, with an empty home folder."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

from tests.docs.page import Command, File

PATIENCE_S = 600
COLUMNS, ROWS = 100, 400
Watch = Callable[[pyte.Screen], None]
INTERRUPT = "^C"
"""The line of an output that stands for Ctrl-C."""
VARYING = (
    (re.compile(r"(?<=\S)  [\d.]+ (?:ms|s|min)$", re.MULTILINE), ""),
    (re.compile(r"SHA256:\S+"), "SHA256:0"),
    (re.compile(r"(?<=-)[0-9a-f]{8}\b"), "id"),
    (re.compile(r"\d[\d,]*(?:\.\d+)+(?:\+\w+)?"), "0"),
    (re.compile(r"\b\d[\d,:]*(?=\s?(?:s|ms|min|h|files|[kMG]i?B)\b)"), "0"),
    (re.compile(r"[▁▂▃▄▅▆▇█]+"), "▁"),
    (re.compile(r"\bstep\s+\d+(?=\s+of\b)"), "step 0"),
    (re.compile(r"\s+"), ""),
)
"""What differs between machines: how long a stage took, run ids, fingerprints, versions, times, sizes and curves; the
step at which a job is seen, because a live view is redrawn only a few times per second; and where lines are broken."""


@dataclass
class Reader:
    """A simulated reader. `folder` is the working folder, `environment` the shell's, `status` the last exit status."""

    folder: Path
    environment: Mapping[str, str]
    status: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def write_file(self, file: File) -> None:
        path = self.folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, "utf-8")

    def type_command(self, command: Command, rows: int = ROWS, watch: Watch = lambda screen: None) -> str:
        """Type the command and return the content of the screen at its end.

        `watch` is called at every change of the screen.
        """
        place = Path(self.environment["HOME"]) / ".folder"
        script = f"(exit {self.status})\n{command.text}\nlast=$?\npwd >'{place}'\nexit $last\n"
        screen, terminal = pyte.Screen(COLUMNS, rows), pty.openpty()
        fcntl.ioctl(terminal[1], termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=terminal[1],
            stdout=terminal[1],
            stderr=terminal[1],
            start_new_session=True,
        )
        os.close(terminal[1])
        try:
            follow(shell, terminal[0], screen, command, watch)
        finally:
            os.close(terminal[0])
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
            self.status = shell.wait()
        if place.exists():
            self.folder = Path(place.read_text("utf-8").rstrip("\n"))
        return text_of(screen)


def follow(shell: subprocess.Popen[bytes], terminal: int, screen: pyte.Screen, command: Command, watch: Watch) -> None:
    """Copy the shell's output to the screen until it ends. Press Ctrl-C when the lines above `^C` are visible."""
    before = command.output[: command.output.index(INTERRUPT)] if INTERRUPT in command.output else None
    stream, deadline = pyte.ByteStream(screen), time.monotonic() + PATIENCE_S
    with selectors.DefaultSelector() as ready:
        ready.register(terminal, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not ready.select(timeout=1):
                continue
            try:
                stream.feed(os.read(terminal, 65536))
            except OSError:  # The last process at this terminal has ended.
                shell.wait(PATIENCE_S)
                return
            watch(screen)
            if before is not None and pattern(before).fullmatch(same(text_of(screen))):
                stream.feed(INTERRUPT.encode())  # The echo of the terminal.
                os.killpg(shell.pid, signal.SIGINT)
                before = None
    raise AssertionError(f"$ {command.text}\nstill running after {PATIENCE_S} s:\n{text_of(screen)}")


def text_of(screen: pyte.Screen) -> str:
    """Return the lines on the screen, without the empty lines at the bottom."""
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n")


def difference(command: Command, printed: str) -> str:
    """Return "" if the page shows the printed text, otherwise both texts."""
    lines = list(command.output)
    if INTERRUPT in lines:  # The text above was on the screen when Ctrl-C was pressed.
        lines = ["...", *lines[lines.index(INTERRUPT) + 1 :]]
    if not lines or pattern(lines).fullmatch(same(printed)):
        return ""
    shown = "\n".join(command.output)
    return f"line {command.line}: $ {command.text}\n--- on the page\n{shown}\n--- printed\n{printed}"


def pattern(output: Sequence[str]) -> re.Pattern[str]:
    """Return the expression that the whole output of a command must match; `...` stands for anything."""
    return re.compile(r".*".join(re.escape(part) for part in same("\n".join(output)).split("...")), re.DOTALL)


def same(text: str) -> str:
    """Return the text with everything that varies replaced."""
    for expression, instead in VARYING:
        text = expression.sub(instead, text)
    return text
