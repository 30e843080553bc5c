"""Temporary folders of dead processes are removed, but never through a link."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from remote.payload.files.leftovers import record_temporary_folder, remove, sweep_scratch


def dead_folder(scratch: Path) -> Path:
    """Create a scratch folder of a process that has ended."""
    code = "from remote.payload.files.leftovers import new_owned_name; print(new_owned_name('proof'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folder = scratch / done.stdout.strip()
    folder.mkdir(parents=True)
    return folder


def precious(folder: Path) -> Path:
    inner = folder / "precious/inner"
    inner.mkdir(parents=True)
    inner.chmod(0o755)
    (inner / "file").write_text("kept")
    return inner


def test_a_link_in_place_of_a_recorded_temporary_folder_changes_nothing_behind_it(tmp_path: Path) -> None:
    inner, link = precious(tmp_path), tmp_path / "hs-1"
    link.symlink_to(inner.parent)
    record_temporary_folder(str(dead_folder(tmp_path / "scratch")), str(link))
    sweep_scratch(str(tmp_path / "scratch"))
    assert stat.S_IMODE(inner.stat().st_mode) == 0o755 and (inner / "file").read_text() == "kept"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_link_inside_a_removed_folder_changes_nothing_behind_it(tmp_path: Path) -> None:
    inner, folder = precious(tmp_path), tmp_path / "hs-2"
    folder.mkdir()
    (folder / "out").symlink_to(inner.parent)
    remove(str(folder))
    assert stat.S_IMODE(inner.stat().st_mode) == 0o755 and (inner / "file").read_text() == "kept"
    assert not folder.exists()
