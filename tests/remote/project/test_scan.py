"""What the laptop would send, and which files it refuses."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.errors import SyncRefused
from remote.project.digests import write_state
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from tests.remote.project.git_tree import git, make, needs_git

ODD = [
    "new\nline.py",
    "it's.py",
    'say "x".py',
    "*.py",
    "-rf",
    " leading.py",
    "{host}.py",
    "n" * 255,
    b"\xff\xfe.py",
    "\u202eyp.exe",
]


@pytest.mark.parametrize("name", ODD)
def test_BI_48_names_with_unusual_bytes_are_scanned_unchanged(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), name if isinstance(name, bytes) else os.fsencode(name))
    with open(path, "wb") as file:
        file.write(b"x = 1\n")
    found = scan_project(tmp_path)
    assert [os.fsencode(path) for path in found.manifest.rows] == [os.path.basename(path)]
    assert found.report.ok


@pytest.mark.parametrize(
    ("one", "other"), [("Model.py", "model.py"), ("\u00e9.py", "e\u0301.py"), ("STRASSE.py", "straße.py")]
)
def test_BI_49_two_names_that_collide_on_other_file_systems_are_both_reported(tmp_path, one, other):
    for name in (one, other):
        (tmp_path / name).write_text("")
    (finding,) = scan_project(tmp_path).report.findings
    assert (finding.check, finding.exit_code, finding.severity) == ("same-name", ExitCode.SYNC, Severity.ERROR)
    assert repr(one) in finding.message and repr(other) in finding.message


def test_BI_50_links_and_special_files_are_reported_and_not_opened(tmp_path):
    root = tmp_path / "p"
    root.mkdir()
    os.symlink("loop", root / "loop")
    os.symlink("/etc/passwd", root / "passwd")
    os.symlink("../outside", root / "up")
    os.symlink("nowhere", root / "dangling")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "sock"))
        found = scan_project(root)
    findings = {finding.where: finding for finding in found.report.findings}
    assert set(findings) == {"loop", "passwd", "up", "dangling", "pipe", "sock"}
    assert {finding.exit_code for finding in findings.values()} == {ExitCode.SYNC}
    assert (
        "circular" in findings["loop"].message
        and "outside" in findings["passwd"].message
        and "outside" in findings["up"].message
    )
    assert "does not exist" in findings["dangling"].message
    assert "FIFO" in findings["pipe"].message and "socket" in findings["sock"].message
    assert not found.manifest.rows


def test_BI_50_a_link_out_through_another_link_is_outside(tmp_path):
    root = tmp_path / "p"
    (root / "real").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/x").write_text("x")
    (root / "real/keep.py").write_text("")
    os.symlink("../../secret", root / "real/door")
    os.symlink("real/door/x", root / "through")
    assert {finding.where for finding in scan_project(root).report.errors} == {"real/door", "through"}


def test_relative_links_inside_the_project_stay_links(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("")
    os.symlink("src/a.py", tmp_path / "a.py")
    os.symlink("src", tmp_path / "lib")
    found = scan_project(tmp_path)
    assert found.report.ok
    assert {path: row.link for path, row in found.manifest.rows.items()} == {
        "src/a.py": "",
        "a.py": "src/a.py",
        "lib": "src",
    }


@pytest.mark.parametrize("which", ["home", "above", "root", "file", "nothing"])
def test_a_home_folder_is_refused_as_a_project(tmp_path, monkeypatch, which):
    home = tmp_path / "people/me"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "file").write_text("")
    paths = {
        "home": home,
        "above": tmp_path / "people",
        "root": Path("/"),
        "file": tmp_path / "file",
        "nothing": tmp_path / "x",
    }
    with pytest.raises(SyncRefused) as refused:
        scan_project(paths[which])
    assert refused.value.exit_code == ExitCode.SYNC and refused.value.hint


def test_the_executable_bit_is_the_only_mode_that_counts(tmp_path):
    for name, mode in (("run.sh", 0o700), ("a.py", 0o600), ("b.py", 0o664)):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(mode)
    assert {path: oct(row.mode) for path, row in scan_project(tmp_path).manifest.rows.items()} == {
        "run.sh": "0o755",
        "a.py": "0o644",
        "b.py": "0o644",
    }


@given(
    names=st.lists(
        st.binary(min_size=1, max_size=12).filter(lambda b: b not in {b".", b".."} and not {0, 47} & set(b)),
        min_size=1,
        max_size=6,
        unique=True,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_name_a_file_system_takes_is_scanned_or_refused_by_name(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("names")
    for name in names:
        with open(os.path.join(os.fsencode(root), name), "wb") as file:
            file.write(name)
    found = scan_project(root)
    findings = {finding.where for finding in found.report.findings}
    for name in names:
        if name.startswith(b".#") or name in {b".git", b".gitignore"}:
            continue
        path = os.fsdecode(name)
        assert path in found.manifest.rows or name.decode("utf-8", "backslashreplace") in findings
    assert all(finding.where.isprintable() or finding.where.encode() for finding in found.report.findings)


@pytest.mark.parametrize("link", [".halfstep", ".halfstep/agreed"])
def test_SE_nothing_is_cached_through_a_link_of_a_cloned_project(tmp_path, link):
    root, victim = tmp_path / "project", tmp_path / "victim"
    for folder in (root / link).parent, victim:
        folder.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(victim)
    (root / "a.py").write_text("x = 1\n")
    os.utime(root / "a.py", (1, 1))
    assert scan_project(root).report.ok
    write_state(root / ".halfstep" / "agreed", "host.json", {})
    assert list(victim.iterdir()) == []


@needs_git
@pytest.mark.parametrize("above", ["", "sub/"], ids=["the root of the repository", "a folder of it"])
@pytest.mark.parametrize("tracked", [False, True])
def test_SE_12_records_that_git_tracks_are_reported(tmp_path: Path, above: str, tracked: bool) -> None:
    make(tmp_path, {f"{above}train.py": "", f"{above}.halfstep/runs/a-1/run.json": "{}", "other/.halfstep/x": ""})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", f"{above}.halfstep" if tracked else f"{above}train.py", "other")
    found = [finding for finding in scan_project(tmp_path / above).report.findings if finding.check != "too-large"]
    hint = "if the repository is yours, remove .halfstep/ from its index (git rm --cached) and commit"
    assert [(one.check, one.severity, one.hint) for one in found] == (
        [("tracked-records", Severity.WARNING, hint)] if tracked else []
    )
    if tracked:
        git(tmp_path / above, "rm", "-r", "-q", "--cached", ".halfstep")
        assert scan_project(tmp_path / above).report.findings == ()
        assert (tmp_path / above / ".halfstep/runs/a-1/run.json").is_file()
