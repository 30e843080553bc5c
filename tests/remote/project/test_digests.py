"""Cached digests of files save work and never change a result."""

from __future__ import annotations

import os
import time

from remote.project.scan import scan_project


def test_the_digest_cache_never_changes_a_result(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n")
    os.utime(tmp_path / "a.py", (1, 1))
    first = scan_project(tmp_path).manifest
    for damage in (b"", b"{", b"[]", b'{"version":1,"rows":{"a.py":[1]}}', b'{"version":99,"rows":{}}'):
        (tmp_path / ".halfstep").mkdir(exist_ok=True)
        (tmp_path / ".halfstep/scan.json").write_bytes(damage)
        assert scan_project(tmp_path).manifest == first


def test_an_edit_with_the_same_size_and_mtime_is_detected(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    before = scan_project(tmp_path).manifest.rows["a.py"]
    times = path.stat()
    path.write_text("x = 2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert scan_project(tmp_path).manifest.rows["a.py"].source != before.source


def test_a_warm_scan_of_2000_files_is_quick(tmp_path):
    for number in range(2000):
        path = tmp_path / f"pkg{number % 50}/m{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x = {number}\n" * 500)
        os.utime(path, (1, 1))
    (tmp_path / ".gitignore").write_text("*.log\nbuild/\n!keep.log\n/dist\n**/cache/**\n")
    first = scan_project(tmp_path)
    times = []
    for _ in range(5):
        began = time.process_time()
        again = scan_project(tmp_path)
        times.append(time.process_time() - began)
    assert again.manifest == first.manifest and len(again.manifest.rows) == 2001
    assert min(times) < 0.15
