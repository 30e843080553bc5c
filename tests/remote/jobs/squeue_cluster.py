"""A cluster whose squeue and scancel list and cancel what is in a file."""

from __future__ import annotations

import os
from pathlib import Path


class Cluster:
    """Programs squeue and scancel, which list and cancel what is in a file."""

    def __init__(self, folder: Path) -> None:
        self.listed, self.calls = folder / "listed", folder / "calls"
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}"}
        self.list()
        self.answer(f'echo squeue >> "{self.calls}"; cat "{self.listed}"')
        self._write(folder / "scancel", f'echo "$@" >> "{self.calls}"; : > "{self.listed}"')

    def answer(self, script: str) -> None:
        """Let squeue run this script."""
        self._write(self.listed.parent / "squeue", script)

    def _write(self, path: Path, script: str) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\n{script}\n")
        fresh.chmod(0o755)
        fresh.rename(path)

    def end(self, state: str) -> None:
        """List the running jobs with this state."""
        self.listed.write_text(self.listed.read_text().replace("RUNNING", state))

    def list(self, *rows: str) -> None:
        """List jobs as in "7 1 RUNNING /folder": number, whether sbatch submitted it, state, working folder."""
        self.listed.write_bytes(b"".join(map(listed_row, rows)))


def listed_row(row: str, name: str = "") -> bytes:
    """Return the line in which squeue prints a job. Columns are padded to a number of bytes."""
    number, batch, state, folder = row.split(" ", 3)
    columns = ((number, 32), (batch, 16), (state, 32), (name or f"job{number}", 256))
    return b"".join(os.fsencode(text).ljust(width) for text, width in columns) + os.fsencode(folder) + b"\n"
