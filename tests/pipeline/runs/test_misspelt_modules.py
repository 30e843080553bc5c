"""Imports whose names are misspelt names of the project's own modules."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.missing_modules import missing_modules, with_reason
from pipeline.runs.misspelt_modules import misspelt_modules
from remote.link.local import local_host
from remote.project.scan import scan_project
from remote.protocol.findings import Finding
from tests.lab.payload import install_payload
from tests.pipeline.views import view_of


@pytest.mark.parametrize(
    ("missing", "paths", "roots", "found"),
    [
        ("hlper", ["helper.py"], [""], "helper.py"),
        ("modle", ["model/__init__.py", "model/parts.py"], [""], "model/__init__.py"),
        ("own.modle", ["src/own/model.py", "src/own/__init__.py"], ["", "src"], "src/own/model.py"),
        ("hlper", ["other/helper.py"], [""], ""),
        ("seaborn_extra", ["helper.py"], [""], ""),
        ("datasets", ["dataset.py"], [""], ""),
        ("helper", ["helper.py"], [""], ""),
    ],
)
def test_the_most_similar_module_that_can_be_imported_is_found(
    missing: str, paths: list[str], roots: list[str], found: str
) -> None:
    assert misspelt_modules([missing], paths, roots) == ({missing: found} if found else {})


def test_the_project_s_own_module_is_named_before_an_installation(tmp_path: Path) -> None:
    root = tmp_path / "project"
    view = view_of(root)
    (root / "train.py").write_text("import no_such_one\nfrom hlper import build\n")
    (root / "helper.py").write_text("def build(): ...\n")
    python = replace(view.survey.interpreter, path=sys.executable)
    view = replace(view, scan=scan_project(root), loaded=load_config("plain", root))
    view = view.with_survey(replace(view.survey, interpreter=python))
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        [finding] = missing_modules(host, view).findings
    finally:
        host.close()
    assert finding.message.endswith(
        f"no_such_one, hlper, which {sys.executable} does not have; the project has helper.py"
    )
    assert finding.hint.startswith("correct the import; if its name is right: (cd / && ")

    proved = with_reason(
        Finding.error("module-missing", "is not installed: hlper", "line 9", "Install it there."), view
    )
    assert proved.message == "is not installed: hlper; the project has helper.py"
    assert proved.hint == "correct the import"
    both = replace(proved, message="is not installed: hlper, no_such_one", hint="Install it there.")
    assert with_reason(both, view).hint == "correct the import; if its name is right: Install it there."
