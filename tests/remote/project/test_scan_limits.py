"""Trees that are too large for code are not read, and their largest folder is named."""

from __future__ import annotations

import os
import subprocess
import time

from remote.project.limits import Limits
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode


def checks(found) -> dict[str, str]:
    return {finding.check: finding.message for finding in found.report.findings}


def test_BI_51_a_file_of_50_gb_is_named_and_not_read(tmp_path):
    with open(tmp_path / "weights.bin", "wb") as file:
        file.truncate(50 * 10**9)
    (tmp_path / "a.py").write_text("")
    began = time.process_time()
    found = scan_project(tmp_path)
    assert time.process_time() - began < 15
    (finding,) = found.report.errors
    assert (finding.check, finding.exit_code) == ("too-large", ExitCode.SYNC)
    assert "weights.bin (50.0 GB)" in finding.message and ".pipelineignore" in finding.hint


def test_BI_51_other_errors_are_reported_beside_a_file_that_is_too_large(tmp_path):
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(2 * 2**20)
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "outside").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    scan = scan_project(tmp_path, limits=Limits(file_bytes=2**20))
    assert {finding.check for finding in scan.report.findings} == {"too-large", "secret-file", "link", "not-regular"}
    assert scan.manifest.rows == {}


def test_BI_51_too_many_files_is_an_error_with_the_largest_folders(tmp_path):
    for folder, count in (("images", 40), ("src", 3), ("logs/old", 20)):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            (tmp_path / folder / f"{number}").write_text("")
    message = checks(scan_project(tmp_path, limits=Limits(files=50)))["too-large"]
    assert message == "63 files, over 50; most of them in images/ (40 files), logs/old/ (20 files), src/ (3 files)"


def test_BI_51_too_many_bytes_is_an_error_with_the_largest_folders(tmp_path):
    for name in ("a/big", "b/small"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(bytes(900_000 if "big" in name else 300_000))
    message = checks(scan_project(tmp_path, limits=Limits(total_bytes=2**20)))["too-large"]
    assert message.startswith("1.2 MB in total, over 1.0 MB; most of it in a/ (900.0 kB), b/ (300.0 kB)")


def test_BI_51_a_tree_500_folders_deep_is_reported(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d", dir_fd=descriptor)
        deeper = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(descriptor)
    (finding,) = scan_project(tmp_path).report.errors
    assert finding.check == "too-deep" and finding.exit_code == ExitCode.SYNC


def sparse(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_large_files_that_git_does_not_track_are_warned_about_and_sent(tmp_path):
    for name in ("kept.npz", "tools/kept.bin"):
        sparse(tmp_path / name, 20 * 10**6)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    sparse(tmp_path / "out/best.pt", 30 * 2**20)
    sparse(tmp_path / "small.pt", 20 * 10**6 - 1)
    found = scan_project(tmp_path)
    (finding,) = found.report.findings
    assert (finding.check, finding.severity.value, finding.where) == ("large-untracked", "warning", "out/best.pt")
    assert "1 file of 20.0 MB or more" in finding.message and "(31.5 MB)" in finding.message
    assert found.report.ok and "out/best.pt" in found.manifest.rows


def test_without_git_every_large_file_is_warned_about_until_it_is_ignored(tmp_path):
    sparse(tmp_path / "data/a.wav", 25 * 10**6)
    assert list(checks(scan_project(tmp_path))) == ["large-untracked"]
    (tmp_path / ".pipelineignore").write_text("data/\n")
    assert checks(scan_project(tmp_path)) == {}


def test_SE_python_files_beyond_the_memory_of_the_fixers_are_an_error(tmp_path):
    sparse(tmp_path / "generated" / "a.py", 200 * 10**6 // 3)
    sparse(tmp_path / "generated" / "b.py", 200 * 10**6 // 3)
    limits = Limits(python_bytes=10**8)
    assert "too-large" not in checks(scan_project(tmp_path, limits=Limits(python_bytes=2 * 10**8)))
    assert checks(scan_project(tmp_path, limits=limits))["too-large"] == (
        "133.3 MB of Python files, over 100.0 MB; most of it in generated/ (133.3 MB)"
    )
