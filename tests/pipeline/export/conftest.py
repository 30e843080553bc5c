"""The project that the tests export."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.consent import require_secret_consent
from tests.lab.answers import Person


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "speech"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "Paper_R64.yaml").write_text(
        "command: [python, train.py]\nsecrets: [HF_TOKEN]\nenv: {LEVEL: '3'}\n"
    )
    (root / "train.py").write_text("print('training')\n")
    (root / "start.sh").write_text("#!/bin/sh\n")
    (root / "start.sh").chmod(0o755)
    (root / "latest").symlink_to("train.py")
    (root / ".gitignore").write_text("out/\n")
    (root / "out").mkdir()
    (root / "out" / "big.bin").write_text("large")
    monkeypatch.chdir(root)
    require_secret_consent(load_config("Paper_R64", root), Person(), typed=False, host=None)
    return root
