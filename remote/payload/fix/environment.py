"""A venv of the project made on the host, whole or not at all, and taken away again only where we made it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import Any, Dict, List, Mapping, Sequence

from remote.payload.files.atomic import write_whole
from remote.payload.fix.installing import PIP, refused, run_alive
from remote.payload.fix.journal import project_of
from remote.payload.fix.marks import MARK, note_made, read_mark
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.tree.paths import check_path
from remote.protocol.values import dumps

ASK_ARCHITECTURES = "import json, torch; print(json.dumps(torch.cuda.get_arch_list()))"


def create_environment(call: Call) -> Dict[str, Any]:
    """The venv is there with everything asked for, or there is none. One of the same recipe is left as it is."""
    project, venv = project_of(call), check_path(call.args["venv"])
    path = os.path.join(project.tree, venv)
    recipe = _recipe(call.args, project.tree)
    mark = read_mark(path)
    if mark.get("recipe") == recipe and mark.get("state") == "done":
        return {"venv": path, "made": False}
    if os.path.exists(path) and not mark:
        raise refused("exists", f"{path} is there already and was not made by this; it was left as it is", path)
    shutil.rmtree(path, ignore_errors=True)
    note_made(project, call.args["fixer"], path)
    os.makedirs(path)
    write_whole(os.path.join(path, MARK), dumps({"state": "unfinished", "recipe": recipe}))
    try:
        _fill(call, project.tree, path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    write_whole(os.path.join(path, MARK), dumps({"state": "done", "recipe": recipe}))
    return {"venv": path, "made": True}


def _fill(call: Call, tree: str, path: str) -> None:
    args, environment = call.args, job_environment(call.args.get("environment", {}))
    run_alive(call, [args["base"], "-m", "venv", path], environment, f"{args['base']} could not make a venv")
    python = os.path.join(path, "bin", "python")
    install = [python, *PIP, "install", *_sources(args, tree)]
    if args["torch"]:
        index = ["--index-url", args["index"]] if args["index"] else []
        run_alive(call, [*install, *index, args["torch"]], environment, f"{args['torch']} could not be installed")
    for name in args["requirements"]:
        file = os.path.join(tree, check_path(name))
        run_alive(call, [*install, "-r", file], environment, f"{name} could not be installed")
    if args["capability"] and args["torch"]:
        _require_architecture(call, python, environment, args["capability"])


def _sources(args: Mapping[str, Any], tree: str) -> List[str]:
    """Where pip looks beside what the host's own pip settings say."""
    links = ["--find-links", os.path.join(tree, args["find_links"])] if args["find_links"] else []
    return [*links, *(["--no-index"] if args["no_index"] else [])]


def _require_architecture(call: Call, python: str, environment: Dict[str, str], capability: Sequence[int]) -> None:
    said = run_alive(call, [python, "-c", ASK_ARCHITECTURES], environment, "the new torch does not import")
    built = [arch.partition("_")[2].rstrip("af") for arch in json.loads(said.splitlines()[-1])]
    major, minor = capability
    if not any(b.isdigit() and int(b[:-1]) == major and int(b[-1]) <= minor for b in built):
        message = (
            f"the torch that came holds no code for capability {major}.{minor}: {' '.join(built) or 'a CPU build'}"
        )
        raise refused("torch-build", message, python, "name the index of the right build in fixers.environment.index")


def _recipe(args: Mapping[str, Any], tree: str) -> str:
    """One digest over everything that decides what the venv holds."""
    keys = ("base", "torch", "index", "find_links", "no_index", "capability")
    files = []
    for name in args["requirements"]:
        with open(os.path.join(tree, check_path(name)), "rb") as file:
            files.append([name, hashlib.sha256(file.read()).hexdigest()])
    return hashlib.sha256(dumps([{key: args[key] for key in keys}, files])).hexdigest()
