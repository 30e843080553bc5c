"""Fixtures with projects that consist of all cases, or of a few."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fixers.all_cases import plan_all, write_cases


@pytest.fixture
def new_project(tmp_path: Path) -> Path:
    """Every case of every source fixer as one project."""
    return write_cases(tmp_path / "project")


@pytest.fixture(scope="session")
def planned_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project and its cached plan."""
    root = write_cases(tmp_path_factory.mktemp("planned") / "project")
    assert plan_all(root).changes
    return root


@pytest.fixture
def project(planned_project: Path, tmp_path: Path) -> Path:
    """A copy of the project and of its cached plan."""
    return Path(shutil.copytree(planned_project, tmp_path / "project"))


@pytest.fixture(scope="session")
def planned_small_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_cases(tmp_path_factory.mktemp("planned") / "project", of_each=3)
    assert plan_all(root).changes
    return root


@pytest.fixture
def small_project(planned_small_project: Path, tmp_path: Path) -> Path:
    """A copy of a project with three cases of each source fixer, and of its cached plan."""
    return Path(shutil.copytree(planned_small_project, tmp_path / "project"))
