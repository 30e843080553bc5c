"""The versions with which a project's code is compared before it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.project_code import judge_old_code
from pipeline.runs.view import View
from remote.project.scan import scan_project
from tests.pipeline.views import view_of

OLD_CODE = "get_ipython().system('ls')\nfrom transformers import AdamW\n"


def view_with(root: Path, installed: str, overrides: tuple[str, ...] = (), **files: str) -> View:
    view = view_of(root, None)
    for name, text in {"train.py": OLD_CODE, **files}.items():
        (root / name.replace("_txt", ".txt")).write_text(text)
    python = replace(view.survey.interpreter, packages={"transformers": installed})
    view = replace(view, scan=scan_project(root), loaded=load_config("plain", root, overrides))
    return view.with_survey(replace(view.survey, interpreter=python))


@pytest.mark.parametrize(
    ("installed", "found"), [("5.1.0", ["notebook-code", "api-removed-name"]), ("4.40.0", ["notebook-code"])]
)
def test_the_code_is_compared_with_the_packages_of_the_host(installed: str, found: list[str], tmp_path: Path) -> None:
    assert [one.check for one in judge_old_code(view_with(tmp_path, installed)).findings] == found


@pytest.mark.parametrize(
    ("pin", "found"), [("transformers==4.40.0", 1), ("transformers==5.1.0", 2), ("transformers", 1)]
)
def test_before_a_venv_is_created_the_code_is_compared_with_the_requirements(
    pin: str, found: int, tmp_path: Path
) -> None:
    view = view_with(tmp_path, "5.1.0", ("fixers.environment=create",), requirements_txt=f"{pin}\n")
    assert len(judge_old_code(view).findings) == found
