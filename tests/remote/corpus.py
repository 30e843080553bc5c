"""Data beside a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A corpus of four recordings and an index."""
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    for number in range(4):
        (folder / "wavs" / f"{number}.wav").write_bytes(os.urandom(300_000))
    (folder / "index.json").write_text("[]")
    return folder
