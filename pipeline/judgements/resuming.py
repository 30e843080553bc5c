"""Whether a script can resume: what the project's files and command say of it, before a job shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fixers.frame.site import Tree

OFFERED = "HALFSTEP_RESUME_FROM"
MARKS = (
    OFFERED.encode(),
    b"resume_from_checkpoint",
    b"get_last_checkpoint",
    b"load_state(",
    b"load_checkpoint(",
    b"optimizer.load_state_dict",
)
"""Our variable, Trainer's argument and search, Accelerate's and DeepSpeed's loads, and a plain loop's."""
ASKED = ("{resume_from}", "resume")


def may_resume(tree: Tree, command: Iterable[str]) -> bool:
    """The command asks for a resume, or a Python file or notebook of the project has something to resume by."""
    if any(asked in word for word in command for asked in ASKED):
        return True
    files = (path for path in tree.paths() if path.endswith((".py", ".ipynb")))
    return any(mark in data for data in map(tree.read, files) for mark in MARKS)
