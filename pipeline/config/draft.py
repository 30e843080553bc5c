"""A first configs/ for a project: what can be seen in its files, and what only the user knows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

TRAINING_WORDS = (b"Trainer(", b"optimizer.step(", b"Accelerator(", b"scaler.step(", b".backward(")
COLLATOR = re.compile(r"collator[^/]*\.py$", re.IGNORECASE)


@dataclass(frozen=True)
class Guess:
    """What the project's files say: the script that trains, its collator file, the shell script that starts it."""

    script: str = ""
    collator: str = ""
    launcher: str = ""


def guess_project(files: Iterable[tuple[str, bytes]]) -> Guess:
    """The most likely training script, its launcher and the collator among (path, bytes)."""
    scripts: list[tuple[int, int, str]] = []
    collator = ""
    shells: list[tuple[str, bytes]] = []
    for path, data in files:
        if path.endswith(".sh"):
            shells.append((path, data))
        if not path.endswith(".py"):
            continue
        if COLLATOR.search(path):
            collator = collator or path
        score = sum(word in data for word in TRAINING_WORDS)
        score += 2 * ("train" in path.rsplit("/", 1)[-1]) + (b"__main__" in data)
        if score >= 2:
            scripts.append((-score, path.count("/"), path))
    script = min(scripts)[2] if scripts else ""
    return Guess(script, collator, _launcher_of(script, shells))


def _launcher_of(script: str, shells: Iterable[tuple[str, bytes]]) -> str:
    """The one shell script that starts it, by file or by module, and asks for no arguments of its own."""
    if not script:
        return ""
    names = (script.encode(), script.removesuffix(".py").replace("/", ".").encode())
    starting = [path for path, data in shells if any(name in data for name in names) and b"$1" not in data]
    return starting[0] if len(starting) == 1 else ""


@dataclass(frozen=True)
class Answers:
    """What `init` writes."""

    name: str
    host: str
    address: str
    script: str
    collator: str
    launcher: str = ""


def render_config(answers: Answers) -> str:
    """configs/NAME.yaml."""
    words = ("bash", answers.launcher) if answers.launcher else ("python", answers.script)
    command = f'["{words[0]}", "{words[1]}"]' if answers.script else "null"
    lines = [
        f"# pipeline run --host {answers.host} --config {answers.name}",
        "project: .",
        f"command: {command}      # null: the built-in trainer (then say model: and data:)",
        "precision: auto           # auto, bf16, fp16-mixed, fp16-pure, fp32",
    ]
    if not answers.script:
        lines += ["model: {id: tiny/phi4-multimodal}", "data: {dataset: tiny-speech}"]
    if answers.collator:
        lines.append(f"fixers: {{data-collator: {{path: {answers.collator}}}}}")
    lines.append("logs: {tensorboard: auto}")
    return "\n".join(lines) + "\n"


def render_host(answers: Answers) -> str:
    """configs/hosts/NAME.yaml."""
    lines = [
        f"# pipeline hosts check {answers.host}",
        f"host: {answers.address}",
        "workdir: ~/halfstep      # where projects lie on the host",
        "# python: venv/bin/python   the interpreter that has torch, where it is not found by itself",
    ]
    return "\n".join(lines) + "\n"
