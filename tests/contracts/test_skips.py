"""The list of permitted skips holds what the tests can give as a reason, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import allowed_skips

TESTS = Path(__file__).resolve().parents[1]
SOURCES = "\n".join(path.read_text("utf-8") for path in TESTS.rglob("*.py") if "cases" not in path.parts)


@pytest.mark.parametrize("reason", allowed_skips())
def test_a_permitted_reason_is_still_given_by_a_test(reason: str) -> None:
    assert f'"{reason}' in SOURCES


@pytest.mark.parametrize("reason", ["no strace on this machine", "needs git", "no Slurm on this machine"])
def test_what_the_setup_installs_is_no_reason_to_skip_in_ci(reason: str) -> None:
    assert reason not in allowed_skips()
