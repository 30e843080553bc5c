"""A venv of the project on the host: made, resumed where an attempt was cut short, removed only where it is ours."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Sequence

from remote.payload.files.atomic import write_whole
from remote.payload.files.lock import Held, Lock, take_lock
from remote.payload.fix.installing import refused
from remote.payload.fix.journal import project_of
from remote.payload.fix.marks import MARK, begin_marked, discard, note_made, read_mark
from remote.payload.fix.venv import Venv
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.tree.paths import check_path
from remote.payload.tree.state import Project
from remote.protocol.values import dumps

ASK_ARCHITECTURES = "import json, torch; print(json.dumps(torch.cuda.get_arch_list()))"
DONE, UNFINISHED = "done", "unfinished"
TEMPORARY = "tmp.halfstep"
"""pip's temporary files, inside the venv: as much room as there is for the packages, and removed with it."""
LOCK = "venv.lock"
OUTSIDE = ("PYTHONPATH", "PYTHONHOME")
WAIT_S = 1.0
IMPORTS_S = 60.0


def create_environment(call: Call) -> Dict[str, Any]:
    """The venv has everything that the request names. Pushes {doing, done, total}, {note} and {downloads} on the way.

    A venv that an earlier attempt at the same recipe left half made is completed, one of another recipe is made anew.
    Raises Refusal for a folder that is not ours, and where a step fails; what was installed until then stays.
    """
    project, venv = project_of(call), check_path(call.args["venv"])
    path = os.path.join(project.tree, venv)
    recipe = _recipe(call.args, project.tree)
    folder = os.path.join(project.at(project.layout.undo), str(call.args["fixer"]))
    with _only_one(call, os.path.join(folder, LOCK)) as lock:
        earlier = _prepare(project, str(call.args["fixer"]), path, recipe)
        if earlier == UNFINISHED:
            call.push({"note": f"{path} is ours and was left unfinished: the installation is resumed"})
        _fill(call, project.tree, path, lock)
        write_whole(os.path.join(path, MARK), dumps({"state": DONE, "recipe": recipe}))
    return {"venv": path, "made": earlier != DONE, "resumed": earlier == UNFINISHED}


@contextlib.contextmanager
def _only_one(call: Call, path: str) -> Iterator[Lock]:
    """No other installation is under way; one that is, even if only its pip is left, is waited for."""
    while True:
        try:
            lock = take_lock(path, f"pid {os.getpid()}", wait_s=WAIT_S)
            break
        except Held as held:
            if call.connection.closed():
                raise EOFError("the laptop closed the line") from None
            call.push({"doing": f"waiting for an earlier installation to end ({held})"})
    with lock:
        yield lock


def _prepare(project: Project, fixer: str, path: str, recipe: str) -> str:
    """The folder bears our mark. The state of the venv of this recipe that it already has; empty where it has none."""
    mark = read_mark(path)
    if os.path.lexists(path) and not mark and not (os.path.isdir(path) and not os.listdir(path)):
        message = f"{path} exists and was not made by halfstep; it was left as it is"
        other = f"{os.path.basename(path)}-halfstep/bin/python"
        raise refused("exists", message, path, f"name another folder in the host file: `python: {other}`")
    note_made(project, fixer, path)
    earlier = str(mark.get("state")) if mark.get("recipe") == recipe and _has_pip(path) else ""
    if not earlier:
        discard(path)
    begin_marked(path, {"state": UNFINISHED, "recipe": recipe})
    return earlier


def _has_pip(path: str) -> bool:
    python = os.path.join(path, "bin", "python")
    try:
        done = subprocess.run([python, "-c", "import pip"], capture_output=True, timeout=IMPORTS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _fill(call: Call, tree: str, path: str, lock: Lock) -> None:
    args, temporary = call.args, os.path.join(path, TEMPORARY)
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    environment = {**job_environment(args.get("environment", {})), "TMPDIR": temporary}
    for name in OUTSIDE:
        # pip would take packages that lie elsewhere for installed, and the venv would lack them.
        environment.pop(name, None)
    venv = Venv(call, path, tree, environment, lock.fileno())
    if not _has_pip(path):
        venv.make(args["base"])
    _remove_cut_installs(path)
    pip = venv.newest_pip(sources=_sources(args, tree), offline=args["no_index"])
    extra = venv.extra_index(args["build_index"] if not args["no_index"] else "")
    for what, words in _steps(args, tree, extra):
        venv.weigh(pip, words, temporary)
        venv.install(pip, words, what)
    if args["capability"]:
        _require_architecture(venv, args["capability"])
    shutil.rmtree(temporary, ignore_errors=True)


def _remove_cut_installs(path: str) -> None:
    """pip writes a package's RECORD last: one without it was cut short, and pip would take it for installed."""
    for folder in glob.glob(os.path.join(glob.escape(path), "lib", "python*", "site-packages", "*.dist-info")):
        if not os.path.exists(os.path.join(folder, "RECORD")):
            shutil.rmtree(folder)


def _steps(args: Mapping[str, Any], tree: str, extra: Sequence[str]) -> Iterator[Any]:
    """What each `pip install` installs, in words and as arguments: all at once, so that versions are resolved together,
    unless torch has an index of its own."""
    sources = _sources(args, tree)
    files = [word for name in args["requirements"] for word in ("-r", os.path.join(tree, check_path(name)))]
    packages = [*files, *args["packages"]]
    names = [*args["requirements"], *args["packages"]]
    if args["index"]:
        yield args["torch"], [*sources, "--index-url", args["index"], args["torch"]]
        if packages:
            yield ", ".join(names), [*sources, *packages]
    else:
        yield ", ".join([args["torch"], *names]), [*sources, *extra, args["torch"], *packages]


def _sources(args: Mapping[str, Any], tree: str) -> List[str]:
    """Where pip looks beside what the host's own pip settings name."""
    found = str(args["find_links"])
    links = ["--find-links", found if "://" in found else os.path.join(tree, found)] if found else []
    return [*links, *(["--no-index"] if args["no_index"] else [])]


def _require_architecture(venv: Venv, capability: Sequence[int]) -> None:
    printed = venv.run([venv.python, "-c", ASK_ARCHITECTURES], "the new torch does not import")
    built = [arch.partition("_")[2].rstrip("af") for arch in json.loads(printed.splitlines()[-1])]
    major, minor = capability
    if not any(b.isdigit() and int(b[:-1]) == major and int(b[-1]) <= minor for b in built):
        message = (
            f"the torch that was installed holds no code for capability {major}.{minor}:"
            f" {' '.join(built) or 'a CPU build'}"
        )
        hint = "name the index of the right build in fixers.environment.index"
        raise refused("torch-build", message, venv.python, hint)


def _recipe(args: Mapping[str, Any], tree: str) -> str:
    """One digest over everything that decides what the venv holds."""
    keys = ("base", "torch", "index", "build_index", "find_links", "no_index", "capability", "packages")
    files = []
    for name in args["requirements"]:
        with open(os.path.join(tree, check_path(name)), "rb") as file:
            files.append([name, hashlib.sha256(file.read()).hexdigest()])
    return hashlib.sha256(dumps([{key: args[key] for key in keys}, files])).hexdigest()
