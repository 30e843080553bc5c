"""Print the output of a local program as notes on stderr, each line escaped."""

from __future__ import annotations

import threading
from typing import IO

from pipeline.show.screen import Screen

LONGEST_PART = 2**14
"""A longer line is printed in parts of this size, in bytes, so that a line without an end takes little memory."""


def start_printing(output: IO[bytes], program: str) -> threading.Thread:
    """Start a thread that prints each line as soon as it is complete. The thread ends with the output, and closes it.

    Each line begins with the name of the program. The program may repeat text of a host or of a web page, which must
    not look like a line of halfstep.
    """
    thread = threading.Thread(target=_print_lines, args=(output, program), daemon=True)
    thread.start()
    return thread


def _print_lines(output: IO[bytes], program: str) -> None:
    screen = Screen(on_stderr=True)
    with output:  # If stderr is closed, the program must not wait for a reader either.
        while data := output.readline(LONGEST_PART):
            line = data.decode("utf-8", "backslashreplace").rstrip("\r\n")
            if line.strip():
                screen.note(f"{program}: {line}")
