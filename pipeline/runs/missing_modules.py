"""Find the modules that a training script imports and that the host's interpreter lacks, before the script runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from fixers.frame.change import Plan
from fixers.setup.environment import VENV, is_requested, venv_of
from fixers.setup.imported_modules import imports_of_command, packages_of
from fixers.setup.importing_lines import importing_lines
from fixers.setup.project_packages import REQUIREMENTS, NoPackages, ProjectPackages, names_of, read_packages
from fixers.setup.started_files import python_files_of
from fixers.sources.module_files import SOURCE_ROOTS
from pipeline.runs.fixes import fixer_settings_of, host_changes_of
from pipeline.runs.misspelt_modules import describe_misspelt, misspelt_modules, with_correction
from pipeline.runs.search_path import project_folders, python_path
from pipeline.runs.view import View
from remote.host import Host
from remote.protocol.findings import Finding, Report
from remote.protocol.shell import install_on_host

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

    The interpreter only searches the modules; it imports none. If it cannot answer, the report is empty.
    """
    python, config = view.survey.interpreter, view.config
    env = {**view.host.config.env, **config.env}
    search_path = project_folders(env)
    imports = imports_of_command(view.scan, config.command or (), search_path)
    modules = tuple(dict.fromkeys(module for _, found in imports for module in found))
    folders = python_path(env)
    if python.error or not modules or any(map(UNKNOWN_FOLDER.search, folders)):
        return Report()
    asked = "\n".join((" ".join(modules), ":".join(folders)))
    answer = host.probe([python.path, "-I", "-c", ASK], stdin=asked.encode(), timeout_s=TIMEOUT_S)
    missing = answer.stdout.decode("utf-8", "replace").split() if answer.ok else []
    lacking = [module for module in modules if module in missing]
    scripts = [script for script, found in imports if not set(found).isdisjoint(lacking)]
    if not lacking:
        return Report()
    places = importing_lines(view.scan, config.command or (), search_path)
    message = f"{_importing(lacking, places)}, which {python.path} does not have"
    packages = packages_of(lacking)
    own = misspelt_modules(lacking, view.scan.paths(), _roots_of(view, scripts))
    hint = with_correction(hint_to_create(view, packages) or install_on_host(python.path, packages), own)
    message = f"{message}{describe_misspelt(own)}{why_not_created(view)}"
    return Report((Finding.warning("packages", message, places[lacking[0]], hint),))


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

    Modules of the project with similar names are named before it.
    """
    if finding.check != MODULE_MISSING:
        return finding
    reason, hint = why_not_created(view), finding.hint
    modules = finding.message.rpartition(": ")[2].split(", ")
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
