"""Undo all changes of one setup fixer on the host."""

from __future__ import annotations

from typing import Any, Dict

from remote.payload.fix.journal import restore_replaced
from remote.payload.fix.marks import remove_made_folders
from remote.payload.fix.packages import uninstall_packages
from remote.payload.request.call import Call
from remote.payload.tree.lock import open_project


def undo(call: Call) -> Dict[str, Any]:
    """Uninstall packages, remove folders and restore files.

    Raises Refusal if a file was edited since the fixer wrote it. Packages and folders are removed in that case too.
    """
    project, fixer = open_project(call), str(call.args["fixer"])
    restored = [*uninstall_packages(project, fixer), *remove_made_folders(project, fixer)]
    return {"restored": [*restored, *restore_replaced(project, fixer)]}
