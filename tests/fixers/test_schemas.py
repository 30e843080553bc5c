"""Projects with parsers of their own: after the fixers, each program accepts its settings and selects float16."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers
from tests.fixers.schemas import branches, parsers, registries
from tests.fixers.schemas.project import Project

TORCH = 'bfloat16, float16, half, float32 = "bfloat16", "float16", "float16", "float32"\n'
EVERY = [
    pytest.param(project, spelling, id=f"{project.name}-{spelling}")
    for project in (*parsers.PROJECTS, *branches.PROJECTS, *registries.PROJECTS)
    for spelling in project.spellings
]


def selected(project: Project, folder: Path, stub: Path) -> str:
    """Return the output of the program. Fails with the program's error if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(stub), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(project.run.split(), cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.mark.parametrize(("project", "spelling"), EVERY)
def test_a_program_accepts_what_the_fixers_write_into_its_settings(
    tmp_path: Path, project: Project, spelling: str
) -> None:
    folder, stub = tmp_path / "project", tmp_path / "stub"
    for path, text in (project.written(spelling) | {"../stub/torch.py": TORCH}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    assert selected(project, folder, stub) == "bfloat16"
    plan = plan_offers(Site(DiskTree(folder), gpu=TITAN_RTX))
    for change in plan.changes:
        assert isinstance(change, FileChange)
        (folder / change.path).write_bytes(change.after)
    if project.refused:
        assert plan.changes == ()
        said = [*(finding.message for finding in plan.findings), *(place.where for place in plan.skipped)]
        assert any(project.refused in words for words in said), said
        assert selected(project, folder, stub) == "bfloat16"
    else:
        assert selected(project, folder, stub) == "float16"
        assert plan_offers(Site(DiskTree(folder), gpu=TITAN_RTX)).changes == ()
