"""Draft the first configs/ of a project from its files and the user's answers. Pure."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fixers.sources.shell_starts import files_started
from fixers.sources.shells import is_shell
from pipeline.config.candidates import Candidate, judge_script, module_of
from pipeline.config.problems import YAML_WORDS
from pipeline.config.readme_commands import LONGEST_PAGE, SETTINGS, Start, choose_start
from remote.protocol.dataclass import dataclass, field

COLLATOR = re.compile(r"collator[^/]*\.py$", re.IGNORECASE)
TESTS = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$|conftest\.py$)")
REQUIREMENTS = ("requirements.txt", "pyproject.toml")
READMES = ("README.md", "readme.md", "README.rst", "README")
MOST_SHELL_BYTES = 4 * 2**20
"""Shell scripts are read only as long as they have at most this number of bytes in all."""
SURROGATES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
PLAIN = re.compile(r"(?:[A-Za-z_/]|~/)[\w./~-]*", re.ASCII)


@dataclass(frozen=True)
class Guess:
    """The files from which `init` drafts a config.

    `scripts` are probable training scripts, the most likely first. `interactive` are training scripts that wait for
    keyboard input. `modules` maps the scripts that must be started with `python -m` to the name of the module and the
    folder that must be on PYTHONPATH. `shells` are the shell scripts that take no arguments, each with the Python files
    that it starts; `pages` maps the README files to their beginnings. `sources`: the project has Python files.
    """

    scripts: tuple[str, ...] = ()
    interactive: tuple[str, ...] = ()
    modules: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    collator: str = ""
    requirements: str = ""
    shells: Mapping[str, frozenset[str]] = field(default_factory=dict)
    pages: Mapping[str, bytes] = field(default_factory=dict)
    sources: bool = False

    def command_of(self, script: str, *, named: bool = False) -> tuple[str, ...]:
        return self.start_of(script, named=named).argv

    def start_of(self, script: str, *, named: bool = False) -> Start:
        """Return how to start the script: a shell script or README command if only one fits, else Python.

        For a settings file, this is the README command that names it, or no command.

        If the user `named` the script, no shell script is started in its place, as that could do more than train.
        """
        if not script:
            return Start(())
        if is_shell(script):
            return Start(("bash", script))
        if not named and (launcher := self.launcher_of(script)):
            return Start(("bash", launcher))
        module = self._module_of(script)
        plain: tuple[str, ...] = ("python", "-m", module) if script in self.modules else ("python", script)
        if script.endswith(SETTINGS):
            plain = ()
        return choose_start(script, module, plain, self.pages)

    def import_folder(self, script: str, command: tuple[str, ...]) -> str:
        """Return the folder that PYTHONPATH must contain for the command, or "" for none."""
        module, folder = self.modules.get(script, ("", ""))
        return folder if module in command else ""

    def _module_of(self, script: str) -> str:
        return self.modules[script][0] if script in self.modules else script.removesuffix(".py").replace("/", ".")

    def launcher_of(self, script: str) -> str:
        """Return the shell script that starts the script and takes no arguments, or "" if there is not exactly one."""
        module = self._module_of(script).replace(".", "/")
        names = {script, f"{module}.py", f"{module.removesuffix('/__main__')}.py"}
        starting = [path for path, started in self.shells.items() if names & started]
        return starting[0] if len(starting) == 1 else ""


def guess_project(files: Iterable[tuple[str, bytes]]) -> Guess:
    """Find the training scripts, their launchers, the collator and the requirements. `files` are (path, content).

    No content is kept, except the beginnings of README files: together, the files may be larger than the memory.
    """
    found: list[Candidate] = []
    collator = requirements = ""
    shells: dict[str, frozenset[str]] = {}
    pages: dict[str, bytes] = {}
    sources = False
    shell_bytes = 0
    packages: set[str] = set()
    for path, data in files:
        if is_shell(path):
            shell_bytes += len(data)
            if _may_launch(data, shell_bytes):
                shells[path] = files_started(path, data)
        elif path in REQUIREMENTS:
            requirements = requirements or path
        elif path in READMES:
            pages[path] = data[:LONGEST_PAGE]
        elif path.endswith(".py") and not TESTS.search(path):
            sources = True
            if posixpath.basename(path) == "__init__.py":
                packages.add(posixpath.dirname(path))
            if COLLATOR.search(path):
                collator = collator or path
            if candidate := judge_script(path, data):
                found.append(candidate)
    modules = {one.path: module for one in found if (module := module_of(one, packages))}
    return Guess(*_ranked(found), modules, collator, requirements, shells, pages, sources)


def _may_launch(data: bytes, shell_bytes: int) -> bool:
    """Return True for a shell script without arguments, if this script and those before it are within the limit."""
    return b"$1" not in data and shell_bytes <= MOST_SHELL_BYTES


def _ranked(found: list[Candidate]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of scripts and of interactive scripts, the most likely first."""
    ranked = sorted(found, key=lambda script: (-script.score, script.path.count("/"), script.path))
    return (
        tuple(script.path for script in ranked if not script.interactive),
        tuple(script.path for script in ranked if script.interactive),
    )


@dataclass(frozen=True)
class Answers:
    """The values of the configs that `init` writes. `found_data` is a data folder that is not sent with the code.

    `offers_environment`: the project lists its requirements, and the host may lack torch. `reach` are the connection
    keys of the host file, such as `port` and `user`; `variables` are the environment variables of the host, and
    `environ` those of the command. `incomplete`: the README starts the script with more arguments than `command`.
    `slurm` are the keys of `slurm:` that a batch script requests.
    """

    name: str
    host: str
    address: str
    script: str
    collator: str
    command: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    data: str = ""
    found_data: str = ""
    environment: bool = False
    offers_environment: bool = False
    card: str = ""
    reach: Mapping[str, Any] = field(default_factory=dict)
    workdir: str = "~/halfstep"
    variables: Mapping[str, str] = field(default_factory=dict)
    incomplete: bool = False
    slurm: Mapping[str, str | int] = field(default_factory=dict)


def render_config(answers: Answers) -> str:
    """Return the text of configs/NAME.yaml. Options that were not chosen are comments."""
    command = _as_yaml(answers.command) if answers.script else "null"
    lines = [
        f"# pipeline run --host {answers.host} --config {answers.name}",
        "# yaml-language-server: $schema=../.halfstep/schemas/config.schema.json",
        "project: .",
        f"command: {command}      # null: the built-in trainer, with model: and data:",
        "precision: auto           # auto, bf16, fp16-mixed, fp16-pure, fp32",
    ]
    if answers.environ:
        variables = ", ".join(f"{_scalar(name)}: {_scalar(value)}" for name, value in answers.environ.items())
        lines.append(f"env: {{{variables}}}")
    if answers.slurm:
        keys = ", ".join(f"{key}: {_as_yaml(value)}" for key, value in answers.slurm.items())
        lines.append(f"slurm: {{{keys}}}      # from the #SBATCH lines, for a host with `scheduler: slurm`")
    if not answers.script:
        lines.append("model: {id: tiny/phi4-multimodal}")
    if answers.data:
        lines.append(f"data: {{path: {_as_yaml(answers.data)}}}    # sent separately; its path is $HALFSTEP_DATA_DIR")
    elif answers.script:
        folder = _scalar(answers.found_data or "FOLDER")
        lines.append(f"# data: {{path: {folder}}}      a local folder, sent separately; its path is $HALFSTEP_DATA_DIR")
    else:
        lines.append("data: {dataset: tiny-speech}")
    lines += _fixer_lines(answers)
    lines.append("logs: {tensorboard: auto}")
    return "\n".join(lines) + "\n"


def _fixer_lines(answers: Answers) -> list[str]:
    chosen = [f"data-collator: {{path: {_as_yaml(answers.collator)}}}"] if answers.collator else []
    chosen += ["environment: create"] if answers.environment else []
    why = "      # data-collator: keeps the host's copy of this file up to date" if answers.collator else ""
    lines = [f"fixers: {{{', '.join(chosen)}}}{why}"] if chosen else []
    if answers.offers_environment and not answers.environment:
        more = ", ".join([*chosen, "environment: create"])
        lines.append(f"# fixers: {{{more}}}      creates a virtual environment if the host has no torch")
    return lines


def render_host(answers: Answers) -> str:
    """Return the text of configs/hosts/NAME.yaml."""
    card = f"card: {_as_yaml(answers.card)}" if answers.card else "# card: titan-rtx"
    lines = [
        f"# pipeline hosts check {answers.host}",
        "# yaml-language-server: $schema=../../.halfstep/schemas/host.schema.json",
        f"host: {answers.address}",
        *(f"{key}: {_as_yaml(value)}" for key, value in answers.reach.items()),
        f"workdir: {_scalar(answers.workdir)}      # the parent folder of projects on the host",
        *([f"env: {_as_yaml(dict(answers.variables))}"] if answers.variables else []),
        "# python: venv/bin/python   the interpreter with torch, if it is not found automatically",
        f"{card}      # assumed for plans if the host has no driver",
    ]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """Return the text as a YAML scalar, quoted if needed. Text from a host or a project may contain line breaks."""
    return text if PLAIN.fullmatch(text) and text.lower() not in YAML_WORDS else _as_yaml(text)


def _as_yaml(value: object) -> str:
    """Return the value as JSON that is also YAML, in which a pair of escaped surrogates is not one character."""

    def as_one(pair: re.Match[str]) -> str:
        character: str = json.loads(f'"{pair[0]}"')
        return f"\\U{ord(character):08x}"

    return SURROGATES.sub(as_one, json.dumps(value))
