"""Find threads of a process group that are still running when Python exits.

Such a thread sometimes aborts the process, because it requests the lock (GIL) of an interpreter that has exited.
"""

from __future__ import annotations

from pathlib import Path

LEFT = "still runs at the end"
TELLS_LEFT_THREADS = {"PYTHONPATH": str(Path(__file__).with_name("watched"))}
"""Environment whose sitecustomize prints such threads to stderr when a process exits."""
