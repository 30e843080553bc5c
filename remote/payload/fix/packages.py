"""Install packages into a venv that halfstep created, and uninstall them again."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List

from remote.payload.files.atomic import write_atomic
from remote.payload.fix.downloads import reachable
from remote.payload.fix.installing import PIP, refused, run_command
from remote.payload.fix.marks import read_mark
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.tree.lock import open_project
from remote.payload.tree.state import Project
from remote.protocol.values import dumps

RECORD = "packages.json"
ASK_INSTALLED = """
import importlib.metadata, json
print(json.dumps(sorted({distribution.name.lower() for distribution in importlib.metadata.distributions()})))
"""


def install_packages(call: Call) -> Dict[str, Any]:
    """Install the packages into the interpreter's venv and record which packages were added.

    Raises Refusal if the venv was not created by halfstep.
    """
    project, python = open_project(call), str(call.args["python"])
    venv = os.path.dirname(os.path.dirname(python))
    if read_mark(venv).get("state") != "done":
        raise refused("not-ours", f"{venv} was not made by halfstep; nothing was installed into it", venv)
    environment = job_environment(call.args.get("environment", {}))
    before = _installed(python)
    links = ["--find-links", call.path(call.args["find_links"]), "--no-index"] if call.args.get("find_links") else []
    packages = [str(package) for package in call.args["packages"]]
    index = str(call.args.get("build_index", ""))
    extra = ["--extra-index-url", index] if index and reachable(index) else []
    argv = [python, *PIP, "install", *links, *extra, *packages]
    run_command(call, argv, environment, f"{', '.join(packages)} could not be installed")
    added = sorted(set(_installed(python)) - set(before))
    record = _record(project, call.args["fixer"])
    known = _read(record)
    write_atomic(record, dumps({"python": python, "packages": sorted({*known.get("packages", []), *added})}))
    return {"installed": added}


def uninstall_packages(project: Project, fixer: str) -> List[str]:
    """Uninstall the packages that the fixer added to a venv, if the venv still exists; return their names."""
    record = _record(project, fixer)
    known = _read(record)
    packages = [str(package) for package in known.get("packages", [])]
    if packages and os.path.exists(str(known["python"])):
        argv = [str(known["python"]), *PIP, "uninstall", "-y", *packages]
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=True)
    if known:
        os.unlink(record)
    return packages


def _installed(python: str) -> List[str]:
    done = subprocess.run([python, "-I", "-c", ASK_INSTALLED], capture_output=True, timeout=120, check=True)
    names: List[str] = json.loads(done.stdout)
    return names


def _record(project: Project, fixer: str) -> str:
    return os.path.join(project.at(project.layout.undo), fixer, RECORD)


def _read(record: str) -> Dict[str, Any]:
    try:
        with open(record, encoding="utf-8") as file:
            value = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
