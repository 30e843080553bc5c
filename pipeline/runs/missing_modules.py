"""Find the modules that a training script imports and that the host's interpreter lacks, before the script runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from fixers.frame.change import Plan
from fixers.setup.environment import VENV, is_requested, venv_of
from fixers.setup.imported_modules import imports_of_script, packages_of
from fixers.setup.project_packages import REQUIREMENTS, NoPackages, ProjectPackages, names_of, read_packages
from pipeline.runs.fixes import fixer_settings_of, host_changes_of
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
UNKNOWN_FOLDER = re.compile(r"[$~{]|(?:^|/)\.\.(?:/|$)")
"""Matches a folder in PYTHONPATH that is not known before the job starts, or that is above the project."""


def missing_before(host: Host, view: View, fixes: Plan) -> Report:
    """Return `missing_modules` unless the fixes change the environment, which then has other packages."""
    changes = any(change.fixer == "environment" for change in host_changes_of(fixes))
    return Report() if changes else missing_modules(host, view)


def missing_after(host: Host, view: View, exit_status: int | None) -> Report:
    """Return `missing_modules` if the script has failed, else an empty report."""
    return missing_modules(host, view) if exit_status else Report()


def _hint_to_list(view: View, setting: object, packages: Sequence[str]) -> str:
    """Return what to write so that the next run installs the packages.

    If the interpreter that was found has torch, nothing is installed, unless a venv is chosen instead of it.
    """
    try:
        listed = names_of(view.scan, read_packages(view.scan, setting if isinstance(setting, Mapping) else {}))
    except NoPackages:
        listed = frozenset()
    unlisted = [each for each in packages if not names_of(view.scan, ProjectPackages(packages=(each,))) <= listed]
    steps = [f"add to {REQUIREMENTS}, one package a line: {', '.join(unlisted)}"] if unlisted else []
    tree = str(PurePosixPath(view.workdir, view.layout.tree))
    is_own = venv_of(view.survey.interpreter.path, tree) is not None
    return "; then: ".join([*steps, "pipeline run" if is_own else f"pipeline run --set host.python={VENV}/bin/python"])


def missing_modules(host: Host, view: View) -> Report:
    """Return one warning with all modules that the script imports at its start and that the interpreter lacks.

    The interpreter only searches the modules; it imports none. If it cannot answer, the report is empty.
    """
    python, config = view.survey.interpreter, view.config
    env = {**view.host.config.env, **config.env}
    script, modules = imports_of_script(view.scan, config.command or (), project_folders(env))
    folders = python_path(env)
    if python.error or not modules or any(map(UNKNOWN_FOLDER.search, folders)):
        return Report()
    asked = "\n".join((" ".join(modules), ":".join(folders)))
    answer = host.probe([python.path, "-I", "-c", ASK], stdin=asked.encode(), timeout_s=TIMEOUT_S)
    missing = answer.stdout.decode("utf-8", "replace").split() if answer.ok else []
    lacking = [module for module in modules if module in missing]
    if not lacking:
        return Report()
    packages = packages_of(lacking)
    setting = fixer_settings_of(view).get("environment")
    hint = _hint_to_list(view, setting, packages) if is_requested(setting) else install_on_host(python.path, packages)
    message = f"{script} imports {', '.join(lacking)}, which {python.path} does not have"
    return Report((Finding.warning("packages", message, script, hint),))
