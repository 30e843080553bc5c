"""`fix PATH`, `plan`, `run` and `init` agree on which files belong to a project."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from pipeline.cli.main import run
from remote.project.scan import scan_project

BF16 = "import torch\nx = torch.bfloat16\n"
TRAINS = BF16 + "from vendored import own\nscale_loss(x).backward()\n"
CONFIG = "project: .\ncommand: [python, train.py]\n"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", root, *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    files = {
        "train.py": BF16,
        "out/train.py": BF16,
        "out/left.py": BF16,
        "node_modules/tool/build.py": BF16,
        "node_modules/tool/left.py": BF16,
        "unknown/node_modules/tool.py": BF16,
        ".gitignore": "/out/\nscratch.py\n",
        "scratch.py": BF16,
        "vendored/own.py": BF16,
        "vendored/left.py": BF16,
        "legacy/old.py": BF16,
        ".pipelineignore": "legacy/\n",
        "configs/tiny.yaml": CONFIG,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root / "vendored", "init", "-q")
    (root / "vendored/.git/info/exclude").write_text("left.py\n")
    git(root, "init", "-q")
    git(root, "add", "-f", "train.py", "out/train.py", "node_modules/tool/build.py", "legacy/old.py")
    monkeypatch.chdir(root)
    return root


REWRITTEN = {"train.py", "out/train.py", "node_modules/tool/build.py", "vendored/own.py"}


def changed_by(words: list[str], capsys: pytest.CaptureFixture[str]) -> set[str]:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    diff = answer["diff"]
    assert set(answer.get("send", REWRITTEN)) >= REWRITTEN
    return {line.removeprefix("+++ b/").split("\t")[0] for line in diff.splitlines() if line.startswith("+++ ")}


def test_fix_and_plan_rewrite_what_sync_sends(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent = {path for path in scan_project(project).paths() if path.endswith(".py")}
    assert sent == REWRITTEN
    for path in ("train.py", "out/train.py", "node_modules/tool/build.py"):
        (project / path).write_text(TRAINS)
    assert changed_by(["fix", ".", "--diff", "--card", "titan-rtx"], capsys) == REWRITTEN
    words = ["plan", "--host", "local", "--config", "tiny", "--card", "titan-rtx"]
    assert changed_by(words, capsys) == REWRITTEN


def test_init_offers_the_scripts_that_would_be_sent(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"
    (project / "train.py").unlink()
    for name in ("out/train.py", "out/left.py", "scratch.py", "legacy/old.py"):
        (project / name).write_text(script)
    assert run(["init", "--no-input", "--config", "made", "--host", "local", "--force"]) == 0
    assert "out/train.py" in (project / "configs/made.yaml").read_text()
    assert "out/left.py" not in capsys.readouterr().err


def test_a_folder_that_cannot_be_listed_is_named_instead_of_left_out(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = project / "deep" / "/".join("d" * 101)
    deep.mkdir(parents=True)
    assert run(["fix", ".", "--diff", "--card", "titan-rtx", "--json"]) == 31
    assert "nested too deeply" in capsys.readouterr().out
