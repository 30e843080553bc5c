"""`pipeline explain`: every name there is, and the page of each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.pages.find import all_names

ROOT = Path(__file__).resolve().parents[3]


def test_every_name_is_listed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    told = capsys.readouterr().out
    assert {name for _, name in all_names()} - set(told.split()) == set()
    assert max(len(line) for line in told.splitlines()) <= 110


def test_one_page_loads_no_fixers_and_nothing_that_draws() -> None:
    program = (
        "import sys; from pipeline.cli.main import run; run(['explain', 'sync']); "
        "sys.exit(' '.join({'fixers.registry', 'fixers.setup.tokenizer', 'rich.markdown'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.stderr.strip() == ""
    assert done.stdout.startswith("# sync")
