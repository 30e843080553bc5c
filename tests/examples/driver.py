"""A copy of an example: its own command, and `pipeline` run in its folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.load import LoadedConfig, load_config
from tests.lab.json_output import read_answer
from tests.lab.threads import TELLS_LEFT_THREADS

ROOT = Path(__file__).resolve().parents[2]
CARD = "titan-rtx"
NOT_SOURCE = (".halfstep", "__pycache__", "out", "runs", "tensorboard", "checkpoints")
LOSS = re.compile(r"""\bloss['"]?\s*[:= ]\s*['"]?([0-9][0-9.e+-]*|nan|inf)""")
TIMEOUT_S = 480.0


@dataclass(frozen=True)
class CommandResult:
    """The output and exit code of a command."""

    exit: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on stdout."""
        return read_answer(self.stdout)

    @property
    def losses(self) -> list[float]:
        """Every training loss in the output, in order."""
        return losses_in(self.text)

    @property
    def stages(self) -> dict[str, str]:
        """State by stage, of a `run`."""
        return {stage["name"]: stage["state"] for stage in self.json["stages"]}

    @property
    def checks(self) -> list[str]:
        return [finding["check"] for finding in self.json["findings"]]


@dataclass(frozen=True)
class Example:
    """A copy of the example `name` in `root`; `home` is the user's home folder."""

    name: str
    root: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def config(self) -> LoadedConfig:
        return load_config(self.name, self.root)

    def train(self) -> CommandResult:
        """Run the config's own command in the project's folder, as the user would."""
        return self.train_with()

    def train_with(self, *words: str) -> CommandResult:
        """Run the config's own command with further arguments appended."""
        config = self.config().config
        assert config.command is not None
        python = config.command[0] in ("python", "python3")
        argv = [sys.executable, *config.command[1:]] if python else list(config.command)
        return self._run([*argv, *words], {**TELLS_LEFT_THREADS, **config.env})

    def pipeline(self, *words: str, as_json: bool = True) -> CommandResult:
        """Run `pipeline WORDS --json` in the project's folder."""
        ours = {"PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "pipeline", *words, *(["--json"] if as_json else [])]
        return self._run(argv, ours)

    def fix(self, *words: str) -> CommandResult:
        """Run `pipeline fix .` for the card of the example's host."""
        return self.pipeline("fix", ".", "--config", self.name, "--card", CARD, *words)

    def go(self, *words: str) -> CommandResult:
        """Run `pipeline run --host local --config NAME`."""
        return self.pipeline("run", "--host", "local", "--config", self.name, *words)

    def files(self) -> dict[str, bytes]:
        """Return every file of the project, without those that halfstep created."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not set(path.relative_to(self.root).parts) & set(NOT_SOURCE)
        }

    def job_logs(self) -> list[Path]:
        """Return the training output of every job on the host, oldest first."""
        logs = (self.home / "halfstep").glob("projects/*/runs/*/jobs/*/output.log")
        return sorted(logs, key=lambda path: path.stat().st_mtime)

    def job_losses(self) -> list[float]:
        """Return every training loss that the newest job printed."""
        logs = self.job_logs()
        return losses_in(logs[-1].read_text(errors="replace")) if logs else []

    def _run(self, argv: list[str], more: dict[str, str]) -> CommandResult:
        environment = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
            **more,
        }
        done = subprocess.run(
            argv, cwd=self.root, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)


def copy_example(name: str, folder: Path, **environment: str) -> Example:
    """Return a fresh copy under `folder`, without anything that a run left in the example."""
    folder.mkdir(parents=True, exist_ok=True)
    ignored = shutil.ignore_patterns(*NOT_SOURCE)
    shutil.copytree(ROOT / "examples" / name, folder / name, ignore=ignored)
    (folder / "home").mkdir(exist_ok=True)
    return Example(name, folder / name, folder / "home", dict(environment))


def losses_in(text: str) -> list[float]:
    """Return every training loss in the text, in order."""
    return [float(value) for value in LOSS.findall(text)]


def falls(losses: list[float], *, to: float = 0.9) -> bool:
    """Return True if the mean of the last quarter is at most `to` times the mean of the first quarter."""
    quarter = max(1, len(losses) // 4)
    first, last = losses[:quarter], losses[-quarter:]
    return bool(losses) and sum(last) / len(last) <= to * sum(first) / len(first)
