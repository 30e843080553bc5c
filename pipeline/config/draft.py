"""A first configs/ for a project: what can be seen in its files, and what only the user knows. Pure."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

TRAINING_WORDS = (b"Trainer(", b"optimizer.step(", b"Accelerator(", b"scaler.step(", b".backward(")
COLLATOR = re.compile(r"collator[^/]*\.py$", re.IGNORECASE)
TESTS = re.compile(r"(^|/)(tests?/|test_[^/]*\.py$|[^/]*_test\.py$|conftest\.py$)")
REQUIREMENTS = ("requirements.txt", "pyproject.toml")
ASKS = ("input", "raw_input")
ASKS_OF = {"getpass": "getpass", "click": "prompt", "typer": "prompt", "Prompt": "ask", "questionary": "text"}


@dataclass(frozen=True)
class Guess:
    """What the project's files say: scripts that may train, likeliest first, and what else a config may name.

    `interactive` are such scripts that wait for somebody to type. `shells` are the shell scripts, path and bytes.
    """

    scripts: tuple[str, ...] = ()
    interactive: tuple[str, ...] = ()
    collator: str = ""
    requirements: str = ""
    shells: tuple[tuple[str, bytes], ...] = ()

    def launcher_of(self, script: str) -> str:
        """The one shell script that starts it, by file or by module, and takes no arguments of its own."""
        if not script:
            return ""
        names = (script.encode(), script.removesuffix(".py").replace("/", ".").encode())
        starting = [path for path, data in self.shells if any(name in data for name in names) and b"$1" not in data]
        return starting[0] if len(starting) == 1 else ""


def guess_project(files: Iterable[tuple[str, bytes]]) -> Guess:
    """The training scripts, their launchers, the collator and the requirements among (path, bytes)."""
    scored: list[tuple[int, int, str, bool]] = []
    collator = requirements = ""
    shells: list[tuple[str, bytes]] = []
    for path, data in files:
        if path.endswith(".sh"):
            shells.append((path, data))
        elif path in REQUIREMENTS:
            requirements = requirements or path
        elif path.endswith(".py") and not TESTS.search(path):
            if COLLATOR.search(path):
                collator = collator or path
            if (score := _score(path, data)) >= 2:
                scored.append((-score, path.count("/"), path, _is_interactive(data)))
    scored.sort()
    scripts = tuple(path for *_, path, asks in scored if not asks)
    interactive = tuple(path for *_, path, asks in scored if asks)
    return Guess(scripts, interactive, collator, requirements, tuple(shells))


def _score(path: str, data: bytes) -> int:
    """How many signs there are that the file is what starts a training."""
    named = 2 * ("train" in posixpath.basename(path)) if data.strip() else 0
    return sum(word in data for word in TRAINING_WORDS) + named + (b"__main__" in data)


def _is_interactive(data: bytes) -> bool:
    """It calls what waits for somebody to type."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        return b"input(" in data
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(_asks(function, own) for function in calls)


def _asks(function: ast.expr, own: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in (*ASKS, "getpass") and function.id not in own
    owner = function.value if isinstance(function, ast.Attribute) else None
    return (
        isinstance(function, ast.Attribute)
        and isinstance(owner, ast.Name)
        and ASKS_OF.get(owner.id) == function.attr
        and owner.id not in own
    )


@dataclass(frozen=True)
class Answers:
    """What `init` writes. `found_data` is a folder of the project that looks like data and is not sent with the code.

    `offers_environment`: the project lists what it needs, and the host may lack torch.
    """

    name: str
    host: str
    address: str
    script: str
    collator: str
    launcher: str = ""
    data: str = ""
    found_data: str = ""
    environment: bool = False
    offers_environment: bool = False
    card: str = ""


def render_config(answers: Answers) -> str:
    """configs/NAME.yaml. What was offered and not chosen is there as a comment."""
    words = ("bash", answers.launcher) if answers.launcher else ("python", answers.script)
    command = f"[{json.dumps(words[0])}, {json.dumps(words[1])}]" if answers.script else "null"
    lines = [
        f"# pipeline run --host {answers.host} --config {answers.name}",
        "project: .",
        f"command: {command}      # null: the built-in trainer (then say model: and data:)",
        "precision: auto           # auto, bf16, fp16-mixed, fp16-pure, fp32",
    ]
    if not answers.script:
        lines.append("model: {id: tiny/phi4-multimodal}")
    if answers.data:
        lines.append(f"data: {{path: {json.dumps(answers.data)}}}    # sent apart from code; $HALFSTEP_DATA_DIR there")
    elif answers.script:
        folder = answers.found_data or "FOLDER"
        lines.append(
            f"# data: {{path: {folder}}}      a folder of this machine, sent apart from code: $HALFSTEP_DATA_DIR"
        )
    else:
        lines.append("data: {dataset: tiny-speech}")
    lines += _fixer_lines(answers)
    lines.append("logs: {tensorboard: auto}")
    return "\n".join(lines) + "\n"


def _fixer_lines(answers: Answers) -> list[str]:
    chosen = [f"data-collator: {{path: {json.dumps(answers.collator)}}}"] if answers.collator else []
    chosen += ["environment: create"] if answers.environment else []
    lines = [f"fixers: {{{', '.join(chosen)}}}"] if chosen else []
    if answers.offers_environment and not answers.environment:
        more = ", ".join([*chosen, "environment: create"])
        lines.append(f"# fixers: {{{more}}}      where the host has no torch: makes a virtual environment")
    return lines


def render_host(answers: Answers) -> str:
    """configs/hosts/NAME.yaml."""
    card = f"card: {json.dumps(answers.card)}" if answers.card else "# card: titan-rtx"
    lines = [
        f"# pipeline hosts check {answers.host}",
        f"host: {answers.address}",
        "workdir: ~/halfstep      # where projects lie on the host",
        "# python: venv/bin/python   the interpreter that has torch, where it is not found by itself",
        f"{card}      # assumed where there is no driver to ask, so that plans can be made",
    ]
    return "\n".join(lines) + "\n"
