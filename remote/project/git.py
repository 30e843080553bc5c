"""Run git on the repository of a project, within limits of time and output."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer

# git sets these variables while it runs a hook. With them, git would read another repository.
REDIRECTING = frozenset(
    {"GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_INDEX_FILE", "GIT_PREFIX"}
)


class GitOverran(Exception):
    """git exceeded its deadline, or printed more than its limit."""


def run_git(
    git_folder: Path, words: Sequence[str], deadline_s: float, most_bytes: int, variables: Mapping[str, str]
) -> tuple[int, str]:
    """Return the exit status of git and what it prints, with `variables` added to the environment.

    Raises OSError if git is not installed, and GitOverran.
    """
    argv = ["git", f"--git-dir={git_folder}", *words]
    environment = {name: value for name, value in os.environ.items() if name not in REDIRECTING}
    null = subprocess.DEVNULL
    process = subprocess.Popen(argv, stdin=null, stdout=subprocess.PIPE, stderr=null, env=environment | {**variables})
    late = Timer(deadline_s, process.kill)
    late.start()
    with process:
        assert process.stdout is not None
        try:
            printed = process.stdout.read(most_bytes + 1)
            if len(printed) > most_bytes:
                process.kill()
            process.wait()
        finally:
            in_time = late.is_alive()
            late.cancel()
    if not in_time or len(printed) > most_bytes:
        raise GitOverran
    return process.returncode, os.fsdecode(printed)
