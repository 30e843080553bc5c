"""Findings about the git repositories of a project."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from remote.project.included_files import Walk
from remote.project.records_folder import RECORDS_FOLDER
from remote.project.repository import find_foreign
from remote.protocol.findings import Finding
from remote.protocol.quantities import count
from remote.protocol.shell import shell_command
from remote.protocol.text import one_line


def judge_repositories(walk: Walk, root: Path) -> Iterable[Finding]:
    """Warn about tracked records of halfstep, and about repositories that git cannot read or that others own."""
    if foreign := find_foreign(root):
        dot_git, owner = foreign
        message = f"the repository belongs to another user (uid {owner}), so halfstep does not use it, like git"
        hint = shell_command("if you trust this user: git config --global --add safe.directory {}", dot_git.parent)
        yield Finding.warning("git-not-used", message, one_line(str(dot_git)), hint)
    tracked = walk.scopes[0].count_tracked(RECORDS_FOLDER) if walk.scopes else 0
    if tracked:  # everyone who clones the project gets these files, with the settings of all runs
        message = f"git tracks {count(tracked, 'file')} in {RECORDS_FOLDER}/, the records of halfstep on one machine"
        # Not a command: git would run the hooks of the repository, which may be that of a downloaded archive.
        hint = f"if the repository is yours, remove {RECORDS_FOLDER}/ from its index (git rm --cached) and commit"
        yield Finding.warning("tracked-records", message, RECORDS_FOLDER, hint)
    for repository in (scope.repository for scope in walk.scopes):
        if repository is not None and not repository.is_readable:
            folder = one_line(str(repository.git_folder))
            message = "settings and commit are not read: git fails, or waits, for example for a FIFO or a device"
            hint = shell_command("find {} -not -type f -not -type d", folder)
            yield Finding.warning("git-not-read", message, folder, hint)
