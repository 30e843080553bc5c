"""On a host without torch, the missing torch comes first, with what a project without requirements has to write."""

from __future__ import annotations

import json
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from remote.protocol.exits import ExitCode
from tests.e2e.test_host_names import names
from tests.e2e.user import User
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]
SCRIPT = "import torch\nimport torchaudio\nimport transformers\nloss.backward()\noptimizer.step()\n"
WORDS = ("--config", "mine", "--script", "train.py", "--yes")


@pytest.fixture
def unlisted(user: User, start_sshd: StartSshd, tmp_path: Path) -> User:
    """Return a user whose project lists no packages, and whose host `box` has no torch."""
    (user.project / "train.py").write_text(SCRIPT)
    venv.create(tmp_path / "env", symlinks=True)
    names(user, "box", start_sshd("box", environment={"PATH": f"{tmp_path}/env/bin:/usr/bin:/bin"}))
    return user


def test_init_says_that_torch_is_missing_and_what_to_write(unlisted: User) -> None:
    result = unlisted.run_pipeline("init", "ssh box", *WORDS)
    assert result.code == 0, result.err
    assert "box has no torch: write the script's packages into requirements.txt, one a line" in " ".join(
        result.out.split()
    )
    assert load_config("mine", unlisted.project).config.fixers.model_extra == {}


def test_plan_reports_the_missing_torch_and_no_package_that_needs_it(unlisted: User) -> None:
    assert unlisted.run_pipeline("init", "--host", "box", *WORDS).code == 0
    result = unlisted.run_pipeline("plan", "--host", "box", "--config", "mine", "--json")
    errors = [one for one in json.loads(result.out)["findings"] if one["severity"] == "error"]
    assert (result.code, [one["check"] for one in errors]) == (ExitCode.ENVIRONMENT, ["torch"])
    assert errors[0]["hint"].startswith("write requirements.txt, one package a line: torchaudio, transformers; then: ")
    assert "--set fixers.environment=create" in errors[0]["hint"]
    assert "pip install" not in result.out
