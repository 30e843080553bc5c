"""Find the modules that a training script imports and that the host's interpreter lacks, before the script runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from fixers.frame.change import Plan
from fixers.setup.environment import VENV, is_requested, venv_of
from fixers.setup.imported_modules import imports_of_command, packages_of
from fixers.setup.importing_lines import importing_lines
from fixers.setup.own_packages import OwnPackage, folder_of_package, own_packages_beyond
from fixers.setup.project_packages import REQUIREMENTS, NoPackages, ProjectPackages, names_of, read_packages
from fixers.setup.started_files import python_files_of
from fixers.sources.module_files import SOURCE_ROOTS
from pipeline.runs.fixes import fixer_settings_of, host_changes_of
from pipeline.runs.misspelt_modules import describe_misspelt, misspelt_modules, with_correction
from pipeline.runs.search_path import project_folders, python_path
from pipeline.runs.view import View
from remote.host import Host
from remote.protocol.findings import Finding, Report
from remote.protocol.shell import install_on_host, is_plain

# With -I, neither the project's folder nor a variable decides what this program imports. The folders of
# PYTHONPATH, which login files or the config may set, come last and are only searched.
ASK = (
    "import importlib.util, os, site, sys; site.addsitedir(site.getusersitepackages());"
    "names, _, folders = sys.stdin.read().partition(chr(10));"
    "sys.path += filter(os.path.isabs, [*os.environ.get('PYTHONPATH', '').split(':'), *folders.split(':')]);"
    "print(*(name for name in names.split() if importlib.util.find_spec(name) is None))"
)
TIMEOUT_S = 30.0
UNFIT = ("python", "torch")
"""The checks of an interpreter that does not run or has no torch, which no missing package outweighs."""
MODULE_MISSING = "module-missing"
"""The catalog entry of a package that a script imports and the interpreter lacks."""
WHY_NOT = "no environment is created, because this Python has torch"
UNKNOWN_FOLDER = re.compile(r"[$~{]|(?:^|/)\.\.(?:/|$)")
"""Matches a folder in PYTHONPATH that is not known before the job starts, or that is above the project."""


def missing_before(host: Host, view: View, fixes: Plan) -> Report:
    """Return `missing_modules` unless the fixes change the environment, which then has other packages."""
    changes = any(change.fixer == "environment" for change in host_changes_of(fixes))
    return Report() if changes else missing_modules(host, view)


def missing_after(host: Host, view: View, exit_status: int | None) -> Report:
    """Return `missing_modules` if the script has failed, else an empty report."""
    return missing_modules(host, view) if exit_status else Report()


def missing_modules(host: Host, view: View) -> Report:
    """Return one warning with all modules that the scripts import at their start and that the interpreter lacks.

    Packages of the project in folders that Python does not search are another warning. The interpreter only searches
    the modules; it imports none. If it cannot answer, the report is empty.
    """
    python, config = view.survey.interpreter, view.config
    env = {**view.host.config.env, **config.env}
    search_path = project_folders(env)
    imports = imports_of_command(view.scan, config.command or (), search_path)
    own = own_packages_beyond(view.scan, config.command or (), search_path)
    modules = tuple(dict.fromkeys((*(module for _, found in imports for module in found), *(one.name for one in own))))
    folders = python_path(env)
    if python.error or not modules or any(map(UNKNOWN_FOLDER.search, folders)):
        return Report()
    asked = "\n".join((" ".join(modules), ":".join(folders)))
    answer = host.probe([python.path, "-I", "-c", ASK], stdin=asked.encode(), timeout_s=TIMEOUT_S)
    missing = answer.stdout.decode("utf-8", "replace").split() if answer.ok else []
    beyond = tuple(_beyond(one, view) for one in own if one.name in missing)
    return Report((*beyond, *_lacking(imports, {*missing}.difference(one.name for one in own), view)))


def _beyond(package: OwnPackage, view: View) -> Finding:
    """Return the warning about a package of the project that the job cannot import."""
    file = package.place.rpartition(":")[0]
    place = f"{package.folder}/ of the project" if package.folder else "the project's folder"
    message = f"{file} imports {package.name}, but Python does not search the folder that contains it: {place}"
    return Finding.warning("packages", message, package.place, _hint_to_search(package.folder, view))


def _hint_to_search(folder: str, view: View) -> str:
    """Return the key of the config with which Python searches the folder of the project."""
    before = {**view.host.config.env, **view.config.env}.get("PYTHONPATH", "")
    path = f"{before}:{folder or '.'}" if before else folder or "."
    # The value before may come from a cloned project.
    if not is_plain(path):
        return "in the config: add the folder of the package to PYTHONPATH in `env:`"
    return f"in the config: env: {{PYTHONPATH: {path}}}"


def _lacking(imports: Sequence[tuple[str, Sequence[str]]], missing: Collection[str], view: View) -> tuple[Finding, ...]:
    """Return the warning about the installed modules that are missing, or () if there are none."""
    python, config = view.survey.interpreter, view.config
    lacking = [module for module in dict.fromkeys(each for _, found in imports for each in found) if module in missing]
    scripts = [script for script, found in imports if not set(found).isdisjoint(lacking)]
    if not lacking:
        return ()
    search_path = project_folders({**view.host.config.env, **config.env})
    places = importing_lines(view.scan, config.command or (), search_path)
    message = f"{_importing(lacking, places)}, which {python.path} does not have"
    packages = packages_of(lacking)
    own = misspelt_modules(lacking, view.scan.paths(), _roots_of(view, scripts))
    hint = with_correction(hint_to_create(view, packages) or install_on_host(python.path, packages), own)
    message = f"{message}{describe_misspelt(own)}{why_not_created(view)}"
    return (Finding.warning("packages", message, places[lacking[0]], hint),)


def _importing(modules: Iterable[str], places: Mapping[str, str]) -> str:
    """Return which files import the modules: `train.py imports a, b and utils/wav.py imports c`."""
    by_file: dict[str, list[str]] = {}
    for module in modules:
        by_file.setdefault(places[module].rpartition(":")[0], []).append(module)
    return " and ".join(f"{file} imports {', '.join(own)}" for file, own in by_file.items())


def _roots_of(view: View, scripts: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of the project in which Python searches the modules of the scripts."""
    folders = project_folders({**view.host.config.env, **view.config.env})
    return (*map(posixpath.dirname, scripts), *folders, *SOURCE_ROOTS)


def why_not_created(view: View) -> str:
    """Return why `environment: create` created no environment, as the end of a message, or "" if this is not so."""
    python = view.survey.interpreter
    wanted = is_requested(fixer_settings_of(view).get("environment"))
    return f"; {WHY_NOT}" if wanted and python.torch is not None and not _is_own(view) else ""


def with_reason(finding: Finding, view: View) -> Finding:
    """Return a finding about a module that a script did not find, with the reason why no environment has the module.

    Modules of the project with similar names are named before it. If the module is a package of the project, the hint
    is the folder in which Python must search it.
    """
    if finding.check != MODULE_MISSING:
        return finding
    reason, hint = why_not_created(view), finding.hint
    modules = finding.message.rpartition(": ")[2].split(", ")
    searched = project_folders({**view.host.config.env, **view.config.env})
    folders = {folder_of_package(module, view.scan.paths()) for module in modules}
    if len(folders) == 1 and (folder := folders.pop()) is not None and folder not in searched:
        places = ", ".join(posixpath.join(folder, module) for module in modules)
        message = f"A package of the project is in no folder in which Python searches: {places}"
        return replace(finding, message=message, hint=_hint_to_search(folder, view))
    scripts = python_files_of(view.scan, view.config.command or ()) or ()
    own = misspelt_modules(modules, view.scan.paths(), _roots_of(view, scripts))
    if reason:
        packages = packages_of(tuple(dict.fromkeys(module.partition(".")[0] for module in modules)))
        hint = hint_to_create(view, packages)
    hint = "correct the import" if len(own) == len(modules) else with_correction(hint, own)
    return replace(finding, message=f"{finding.message}{describe_misspelt(own)}{reason}", hint=hint)


def hint_to_create(view: View, packages: Sequence[str]) -> str:
    """Return what to write so that the next run installs the packages, or "" without `environment: create`.

    If the interpreter that was found has torch, nothing is installed, unless a venv is chosen instead of it.
    """
    setting = fixer_settings_of(view).get("environment")
    if not is_requested(setting):
        return ""
    try:
        listed = names_of(view.scan, read_packages(view.scan, setting if isinstance(setting, Mapping) else {}))
    except NoPackages:
        listed = frozenset()
    unlisted = [each for each in packages if not names_of(view.scan, ProjectPackages(packages=(each,))) <= listed]
    steps = [f"add to {REQUIREMENTS}, one package a line: {', '.join(unlisted)}"] if unlisted else []
    run = "pipeline run" if _is_own(view) else f"pipeline run --set host.python={VENV}/bin/python"
    return "; then: ".join([*steps, run])


def _is_own(view: View) -> bool:
    """Return True if the interpreter is that of a venv in the project's tree on the host."""
    tree = str(PurePosixPath(view.workdir, view.layout.tree))
    return venv_of(view.survey.interpreter.path, tree) is not None
