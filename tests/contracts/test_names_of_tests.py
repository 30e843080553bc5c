"""The tests have the same names in every process that collects them, otherwise pytest-xdist runs none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.contracts.project_modules import ROOT

OTHERWISE = {"PYTHONHASHSEED": "7", "HOME": "/", "PYTEST_XDIST_WORKER": "gw9"}


def names_with(environment: dict[str, str]) -> list[str]:
    """Collect all tests in a new process. This takes longer than any clock in a file format needs for a step."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout.splitlines()[:-1]


@pytest.mark.timeout(900)
def test_the_names_of_tests_depend_on_neither_time_nor_process() -> None:
    first, second = names_with({}), names_with(OTHERWISE)
    differing = [(one, other) for one, other in zip(first, second, strict=False) if one != other]
    assert differing[:3] == []
    assert len(first) == len(second) > 10_000
