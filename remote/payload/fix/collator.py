"""Inspect the project's data collator and all other files of the same name on the host; replace the collator."""

from __future__ import annotations

import base64
import os
from typing import Any, Dict, Iterator, List, Tuple

from remote.payload.fix.journal import replace_kept
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.lock import open_project
from remote.payload.tree.paths import check_path
from remote.payload.tree.state import Project, digest_of_file, read_manifest
from remote.protocol.collator import CollatorFacts, Copy
from remote.protocol.exits import ExitCode
from remote.protocol.values import encode

SKIPPED = {".git", "__pycache__", "node_modules", "site-packages", ".halfstep"}
MAX_FOLDERS = 20_000


def look_at_collator(call: Call) -> Dict[str, Any]:
    """Inspect the collator in the project's tree, and all other files of this name that the training might import."""
    project, path = open_project(call), check_path(call.args["path"])
    installed = os.path.join(project.tree, path)
    digest = digest_of_file(os.path.realpath(installed)) if os.path.isfile(installed) else ""
    manifest = read_manifest(project)
    row = manifest.rows.get(path) if manifest else None
    rows = manifest.rows if manifest else {}
    copies: List[Copy] = []
    for other, shadows in _others(call, project, installed):
        name = os.path.relpath(other, project.tree)
        if name not in rows:
            copies.append(Copy(other, digest_of_file(os.path.realpath(other)), shadows))
    edited = row is not None and row.installed != digest
    result: Dict[str, Any] = encode(CollatorFacts(digest, edited, tuple(copies)))
    return result


def replace_collator(call: Call) -> Dict[str, Any]:
    """Replace the collator in the project's tree. The previous file is kept for undo.

    Raises Refusal if a link leads out of the tree.
    """
    project, path = open_project(call), check_path(call.args["path"])
    data, installed = base64.b64decode(call.args["data"]), os.path.join(project.tree, path)
    if not os.path.realpath(installed).startswith(os.path.join(os.path.realpath(project.tree), "")):
        message = f"{path} was not written: it leads to {os.path.realpath(installed)}, outside of the project"
        raise Refusal("elsewhere", message, where=installed, exit_code=ExitCode.FIXER)
    replace_kept(project, call.args["fixer"], installed, data, call.args["expected"])
    return {"path": path, "bytes": len(data)}


def _others(call: Call, project: Project, installed: str) -> Iterator[Tuple[str, bool]]:
    """Yield (path, shadows) for every other file of the collator's name on PYTHONPATH, in the tree or site-packages.

    `shadows` is True if Python imports that file instead of the project's.
    """
    name, seen = os.path.basename(installed), {os.path.realpath(installed)}
    ahead = job_environment(call.args.get("environment", {})).get("PYTHONPATH", "").split(os.pathsep)
    roots = [(folder, True, False) for folder in dict.fromkeys(ahead) if os.path.isabs(folder)]
    roots += [(project.tree, False, True)]
    roots += [(folder, False, False) for folder in _site_packages(call.args.get("prefix", ""))]
    for root, shadows, deep in roots:
        for path in _find_files_named(root, name, deep):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path, shadows


def _find_files_named(root: str, name: str, deep: bool) -> Iterator[str]:
    if not deep:  # without listing the folder: a config may name thousands of large folders
        if os.path.isfile(os.path.join(root, name)):
            yield os.path.join(root, name)
        return
    for count, (folder, folders, names) in enumerate(os.walk(root)):
        if name in names:
            yield os.path.join(folder, name)
        if count > MAX_FOLDERS:
            return
        folders[:] = sorted(entry for entry in folders if entry not in SKIPPED)


def _site_packages(prefix: str) -> List[str]:
    library = os.path.join(prefix, "lib")
    if not prefix or not os.path.isdir(library):
        return []
    folders = (os.path.join(library, entry, "site-packages") for entry in sorted(os.listdir(library)))
    return [folder for folder in folders if os.path.isdir(folder)]
