"""Create the project's venv on the host, or complete an interrupted installation."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from remote.payload.files.atomic import write_atomic
from remote.payload.files.lock import Held, Lock, take_lock
from remote.payload.fix.installing import refused
from remote.payload.fix.marks import MARK, begin_marked, discard, read_mark, record_made_folder
from remote.payload.fix.requirements import BUILD_TOOLS, Requirements, list_requirements, sort_requirements
from remote.payload.fix.surplus import foreign_packages, look, outdated_companions, remove_surplus, uninstall
from remote.payload.fix.venv import PipVersion, Venv
from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.lock import open_project
from remote.payload.tree.paths import check_path
from remote.payload.tree.state import Project, holds_synced_files
from remote.protocol.values import dumps

ASK_ARCHITECTURES = "import json, torch; print(json.dumps(torch.cuda.get_arch_list()))"
DONE, UNFINISHED = "done", "unfinished"
TEMPORARY = "tmp.halfstep"
"""The folder for pip's temporary files.

It is inside the venv, because the venv's file system needs the space for the packages anyway.
"""
LOCK = "venv.lock"
FOREIGN_PATHS = ("PYTHONPATH", "PYTHONHOME")
LOCK_WAIT_S = 1.0
BASE = "name a Python of the host: `base: python3.12`"
IMPORT_TIMEOUT_S = 60.0


def create_environment(call: Call) -> Dict[str, Any]:
    """Install the packages of the request into the venv. Push events {doing, done, total}, {note} and {downloads}.

    A venv of the same recipe (`_recipe`) is kept, and only missing packages are installed. With `keep` in the request,
    a venv of another recipe is kept too. Any other venv is removed and created again. The mark file then contains the
    digest `contents` of the request. Raises Refusal if the folder was not made by halfstep, if `base` is a
    file of the project, or if a step fails; packages that earlier steps installed are kept.
    """
    project, venv = open_project(call), check_path(call.args["venv"])
    path = os.path.join(project.tree, venv)
    if holds_synced_files(project, venv):
        raise _exists(path, f"{path} came with the project, so no environment is created there")
    base = str(call.args["base"])
    if "/" in base and _is_of_project(base, project, str(call.args.get("laptop_root", ""))):
        raise refused("base", f"{base} is a file of the project, which may run only in the training", base, BASE)
    recipe, contents = _recipe(call.args), str(call.args.get("contents", ""))
    folder = os.path.join(project.at(project.layout.undo), str(call.args["fixer"]))
    with _installation_lock(call, os.path.join(folder, LOCK)) as lock:
        earlier = _prepare(project, str(call.args["fixer"]), path, recipe, keep=bool(call.args.get("keep")))
        if earlier == UNFINISHED:
            call.push({"note": f"resuming the unfinished installation of {path}"})
            _remove_byte_code(path)
        packages = _fill(call, project.tree, path, lock)
        done = {"state": DONE, "recipe": recipe, "contents": contents, "packages": packages}
        write_atomic(os.path.join(path, MARK), dumps(done))
    return {"venv": path, "made": earlier != DONE, "resumed": earlier == UNFINISHED}


@contextlib.contextmanager
def _installation_lock(call: Call, path: str) -> Iterator[Lock]:
    """Hold the lock of the installation. Waits until an earlier installation and its pip processes have ended."""
    while True:
        try:
            lock = take_lock(path, f"pid {os.getpid()}", wait_s=LOCK_WAIT_S)
            break
        except Held as held:
            if call.connection.closed():
                raise EOFError("the laptop closed the connection") from None
            call.push({"doing": f"waiting for an earlier installation to end ({held})"})
    with lock:
        yield lock


def _prepare(project: Project, fixer: str, path: str, recipe: str, *, keep: bool) -> str:
    """Write halfstep's mark file into the folder, and remove a venv of another recipe unless `keep` is set.

    Return the previous state of a venv that is kept, or "" if there was no such venv. Raises Refusal for a folder
    that halfstep did not create.
    """
    mark = read_mark(path)
    if os.path.lexists(path) and not mark and not (os.path.isdir(path) and not os.listdir(path)):
        raise _exists(path, f"{path} exists and was not made by halfstep; nothing was changed")
    record_made_folder(project, fixer, path)
    earlier = str(mark.get("state")) if (keep or mark.get("recipe") == recipe) and mark and _has_pip(path) else ""
    if not earlier:
        discard(path)
    packages: Dict[str, Any] = (
        {key: mark[key] for key in ("packages", "foreign") if key in mark} if earlier else {"foreign": []}
    )
    begin_marked(path, {"state": UNFINISHED, "recipe": recipe, **packages})
    return earlier


def _exists(path: str, message: str) -> Refusal:
    other = f"{os.path.basename(path)}-halfstep/bin/python"
    return refused("exists", message, path, f"choose another folder in the host file: `python: {other}`")


def _is_of_project(base: str, project: Project, laptop_root: str) -> bool:
    """Return True for a relative path, and for a path that leads into the tree or the laptop's folder of the project.

    /proc/self has another meaning in the process that runs `base`.
    """
    places = [os.path.normpath(base), os.path.realpath(base)]
    roots = ["/proc", project.tree, os.path.realpath(project.tree), *([laptop_root] if laptop_root else [])]
    return not os.path.isabs(base) or any(f"{place}/".startswith(f"{root}/") for place in places for root in roots)


def _has_pip(path: str) -> bool:
    python = os.path.join(path, "bin", "python")
    try:
        done = subprocess.run(
            [python, "-I", "-c", "import pip"], capture_output=True, timeout=IMPORT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _fill(call: Call, tree: str, path: str, lock: Lock) -> Dict[str, str]:
    """Install the packages of the request, and remove those that only earlier requests needed.

    Return the packages that halfstep has installed into the venv, with their versions.
    """
    args, temporary = call.args, os.path.join(path, TEMPORARY)
    shutil.rmtree(temporary, ignore_errors=True)
    os.makedirs(temporary)
    environment = {**job_environment(args.get("environment", {})), "TMPDIR": temporary}
    for name in FOREIGN_PATHS:
        # pip would treat packages in these folders as installed, so the venv would lack them.
        environment.pop(name, None)
    venv = Venv(call, path, tree, environment, lock.fileno())
    if not _has_pip(path):
        venv.make(_find_base(str(args["base"])))
    _remove_interrupted_installs(path)
    pip = venv.upgrade_pip(sources=_sources(args, tree), offline=args["no_index"])
    extra = venv.extra_index(args["build_index"] if not args["no_index"] else "")
    wanted = sort_requirements(tree, args["requirements"], args["packages"], args.get("left_out", ()), temporary)
    for package in wanted.left_out:
        call.push({"note": f"{package} is left out because the card cannot run it; the fixers select sdpa instead"})
    steps = list(_steps(args, extra, wanted, _sources(args, tree), temporary))
    packages = _synchronize(venv, pip, steps, _roots(args, tree))
    if args["capability"]:
        _require_architecture(venv, args["capability"])
    shutil.rmtree(temporary, ignore_errors=True)
    return packages


def _synchronize(
    venv: Venv, pip: PipVersion, steps: Sequence[Tuple[str, List[str]]], roots: Optional[Sequence[str]]
) -> Dict[str, str]:
    """Install what is missing, then remove what only earlier requirements needed. Return halfstep's packages.

    A torchaudio that was installed beside another torch is installed again. If the requirements are not completely
    known, nothing is removed.
    """
    mark = read_mark(venv.path)
    foreign = foreign_packages(venv, mark)
    write_atomic(os.path.join(venv.path, MARK), dumps({**mark, "foreign": foreign}))
    for what, arguments in steps:
        venv.report_downloads(pip, arguments, venv.environment["TMPDIR"])
        venv.install(pip, arguments, what)
    installed = remove_surplus(venv, roots, foreign) if roots is not None else look(venv, (), ()).installed
    outdated = outdated_companions(installed, mark)
    if outdated:
        venv.call.push({"note": f"installing {', '.join(outdated)} again, for the new torch"})
        uninstall(venv, outdated)
        for what, arguments in steps:
            venv.install(pip, arguments, what)
        installed = look(venv, (), ()).installed
    return {name: version for name, version in installed.items() if name not in foreign}


def _roots(args: Mapping[str, Any], tree: str) -> Optional[List[str]]:
    """Return all requirements of the request, or None if they are not completely known."""
    lines = list_requirements(tree, args["requirements"])
    if lines is None:
        return None
    return [*lines, *args["packages"], *args.get("companions", ()), args["torch"]]


def _find_base(base: str) -> str:
    """Return the path of the base interpreter. A name is searched on the host's PATH, not on that of `env:`."""
    found = base if "/" in base else shutil.which(base)
    if found is None:
        raise refused("no-python", f"{base}: No such file on the PATH of the host", base)
    return found


def _remove_interrupted_installs(path: str) -> None:
    """Remove packages without a RECORD file, which pip writes last; otherwise pip would treat them as installed."""
    for folder in glob.glob(os.path.join(glob.escape(path), "lib", "python*", "site-packages", "*.dist-info")):
        if not os.path.exists(os.path.join(folder, "RECORD")):
            shutil.rmtree(folder)


def _remove_byte_code(path: str) -> None:
    """Remove the byte code of the venv. A full disk may have cut it, and Python would not compile it again."""
    for folder, names, _ in os.walk(os.path.join(path, "lib")):
        if "__pycache__" in names:
            names.remove("__pycache__")
            shutil.rmtree(os.path.join(folder, "__pycache__"), ignore_errors=True)


def _steps(
    args: Mapping[str, Any], extra: Sequence[str], wanted: Requirements, sources: Sequence[str], temporary: str
) -> Iterator[Any]:
    """Yield (description, arguments) of each `pip install`.

    One command resolves all versions together. If torch has its own index, a separate command installs torch first.
    Packages that import torch while they are built are installed last, without build isolation.
    """
    packages = wanted.pip_arguments
    names = [*args["requirements"], *args["packages"]]
    companions = list(args.get("companions", ()))
    if args["index"]:
        yield args["torch"], [*sources, "--index-url", args["index"], args["torch"]]
        if packages:
            yield ", ".join([*companions, *names]), [*sources, *companions, *packages]
    else:
        yield ", ".join([args["torch"], *companions, *names]), [*sources, *extra, args["torch"], *companions, *packages]
    if wanted.deferred:
        listed = os.path.join(temporary, "deferred.txt")
        with open(listed, "w", encoding="utf-8") as file:
            file.write("\n".join(wanted.deferred) + "\n")
        if not args["no_index"]:
            yield "the build tools", [*sources, *BUILD_TOOLS]
        yield ", ".join(wanted.deferred), [*sources, "--no-build-isolation", "-r", listed]


def _sources(args: Mapping[str, Any], tree: str) -> List[str]:
    """Return pip's arguments for package sources in addition to the host's pip configuration."""
    find_links = str(args["find_links"])
    links = (
        ["--find-links", find_links if "://" in find_links else os.path.join(tree, find_links)] if find_links else []
    )
    return [*links, *(["--no-index"] if args["no_index"] else [])]


def _require_architecture(venv: Venv, capability: Sequence[int]) -> None:
    printed = venv.run([venv.python, "-c", ASK_ARCHITECTURES], "the new torch does not import")
    supported = [arch.partition("_")[2].rstrip("af") for arch in json.loads(printed.splitlines()[-1])]
    major, minor = capability
    if not any(b.isdigit() and int(b[:-1]) == major and int(b[-1]) <= minor for b in supported):
        message = (
            f"the torch that was installed has no code for capability {major}.{minor}:"
            f" {' '.join(supported) or 'it is a CPU build'}"
        )
        hint = "set fixers.environment.index to the index of the right build"
        raise refused("torch-build", message, venv.python, hint)


def _recipe(args: Mapping[str, Any]) -> str:
    """Return a digest of everything that determines how the venv is made and which torch it contains."""
    keys = ("base", "torch", "index", "build_index", "find_links", "no_index", "capability")
    return hashlib.sha256(dumps({key: args[key] for key in keys})).hexdigest()
