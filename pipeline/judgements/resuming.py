"""Check whether a script can resume, by searching the project's files and the command. Pure."""

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
"""Text in code that can resume: halfstep's variable, and calls of Trainer, Accelerate, DeepSpeed and PyTorch."""
RESUME_WORDS = ("{resume_from}", "resume")


def may_resume(tree: Tree, command: Iterable[str]) -> bool:
    """Return True if the command or a Python file or notebook of the project refers to resuming."""
    if any(resume_word in word for word in command for resume_word in RESUME_WORDS):
        return True
    files = (path for path in tree.paths() if path.endswith((".py", ".ipynb")))
    return any(mark in data for data in map(tree.read, files) for mark in MARKS)
