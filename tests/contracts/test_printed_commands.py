"""A command that halfstep prints does not run code of the folder in which it is typed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.messages.hints import install_command
from remote.protocol.shell import install_on_host, outside_project
from tests.contracts.project_modules import ROOT, modules

INSTALLS = re.compile(r"""["']-m["'], ["']pip["']""")
ALLOWED = {
    "remote/payload": "runs pip itself, in a folder of its own",
    "pipeline/messages/hints.py": "outside_project",
    "remote/protocol/shell.py": "outside_project",
}


def test_SE_12_pip_is_started_outside_of_the_project() -> None:
    found = [each.where for each in modules() if INSTALLS.search(each.source)]
    assert [where for where in found if not where.startswith(tuple(ALLOWED))] == []


def test_SE_12_no_hint_is_a_git_command() -> None:
    """git would run the hooks and read the settings of a repository that came with the project."""
    hints = re.compile(r"""(?:hint=|shell_command\()[\s(]*f?["']git """)
    assert [each.where for each in modules() if hints.search(each.source)] == []


@pytest.mark.parametrize(
    "command",
    [
        install_on_host(sys.executable, ["--help"]),
        install_command("--help", "/home/me/venv", sys.executable, None),
        outside_project(f"{sys.executable} -m pip --version"),
    ],
)
def test_SE_12_a_folder_pip_of_the_project_is_not_imported(tmp_path: Path, command: str) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text("print('of the project')\n")
    words = command.removesuffix("   (on the host)")
    done = subprocess.run(["sh", "-c", words], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "of the project" not in done.stdout
    assert done.stdout


def test_no_page_of_the_docs_installs_into_an_environment_from_the_project() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "-m pip install" in path.read_text("utf-8")]
    assert all("(cd / &&" in path.read_text("utf-8") or path.name in ("testing.md",) for path in pages), pages
