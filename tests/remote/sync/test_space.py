"""Disks that are full, out of inodes, over quota or read-only: an error with numbers, and the old tree stays."""

from __future__ import annotations

import contextlib
import os
import random
import re

import pytest

from remote.errors import DiskFull
from remote.project.data import scan_data
from remote.protocol.exits import ExitCode
from remote.sync.data import send_data
from remote.sync.sync import sync_project
from tests.remote.sync.sync_bench import STRACE, TracedStarter, contents, no_wait

needs_strace = pytest.mark.skipif(STRACE is None, reason="no strace on this machine")
MIB = 2**20
KEY = "speech-12345678"


def noise(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


class TestSmallDisk:
    pytestmark = pytest.mark.root

    def test_BI_46_too_little_space_is_reported_before_anything_is_sent(self, bench, mount):
        bench.workdir = mount("small", "-o", "size=24m")
        bench.write({"big.bin": noise(20 * MIB)})
        with pytest.raises(DiskFull) as full:
            bench.sync()
        numbers = re.search(r"need ([\d.]+) MB and ([\d.]+) MB in reserve, free ([\d.]+) MB", full.value.message)
        need, reserve, free = map(float, numbers.groups())
        assert 20 <= need < 22 and 20 < free < 26 and need + reserve > free and str(bench.workdir) in full.value.message
        assert full.value.exit_code == ExitCode.DISK and full.value.hint.startswith("df -h ")
        assert not list(bench.home.glob("staging/*"))

    @pytest.mark.parametrize("what", ["code", "data"])
    def test_SE_11_what_does_not_fit_is_refused_before_its_first_byte(self, bench, mount, tmp_path, what):
        bench.workdir = mount("small", "-o", "size=49m")
        place = bench.root if what == "code" else tmp_path / "audio"
        place.mkdir(exist_ok=True)
        (place / "a.bin").write_bytes(noise(45 * MIB))
        read: list[int] = []
        with pytest.raises(DiskFull, match=r"need 47\.\d MB and 16\.8 MB in reserve, free .* nothing was sent"):
            if what == "code":
                sync_project(bench.host, bench.scan(), bench.survey(), progress=lambda done, total: read.append(done))
            else:
                send_data(bench.host, scan_data(place), KEY, progress=lambda done, total: read.append(done))
        assert read == []

    def test_FI_17_a_disk_that_fills_midway_keeps_the_old_tree_and_frees_the_space(self, bench, mount):
        bench.workdir = mount("small", "-o", "size=64m")
        bench.sync()
        older = contents(bench.tree)
        bench.write({f"f{number}.bin": noise(MIB, number) for number in range(24)})
        scan, tree = bench.scan(), bench.survey()
        filler = bench.workdir / "filler"

        def fill(done, total):
            if done > total // 2 and not filler.exists():
                # The agent writes at the same time and may have filled the disk first.
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(bytes(65536)):
                        pass

        with pytest.raises(DiskFull, match=r"no space left on .* need .* free") as full:
            sync_project(bench.host, scan, tree, progress=fill)
        assert filler.exists() and full.value.exit_code == ExitCode.DISK
        assert contents(bench.tree) == older and not (bench.home / "staging").exists()
        filler.unlink()
        assert bench.sync().report.ok and contents(bench.tree) == contents(bench.root)

    def test_FI_18_a_lack_of_inodes_is_reported_as_such(self, bench, mount):
        bench.workdir = mount("small", "-o", "size=64m,nr_inodes=150")
        bench.sync()
        older = contents(bench.tree)
        bench.write({f"f{number}.py": f"{number}" for number in range(200)})
        with pytest.raises(DiskFull, match=r"not enough inodes on .* 20[0-9] files") as full:
            bench.sync()
        assert full.value.exit_code == ExitCode.DISK and contents(bench.tree) == older

    def test_FI_20_a_read_only_file_system_is_reported(self, bench, mount, tmp_path):
        place = mount("small", "-o", "size=64m")
        bench.workdir = place
        bench.sync()
        older = contents(bench.tree)
        bench.close()
        os.system(f"mount -o remount,ro {place}")
        bench._host = None
        bench.write({"new.py": "x"})
        with pytest.raises(DiskFull, match="read-only") as full:
            bench.sync()
        assert full.value.exit_code == ExitCode.DISK and contents(bench.tree) == older
        bench.close()
        os.system(f"mount -o remount,rw {place}")
        bench._host = None
        assert bench.sync().report.ok

    def test_data_that_does_not_fit_is_refused_with_numbers(self, bench, mount, tmp_path):
        bench.workdir = mount("small", "-o", "size=24m")
        (tmp_path / "corpus.bin").write_bytes(noise(30 * MIB))
        with pytest.raises(DiskFull, match=r"need 31\.5 MB and 16\.8 MB in reserve, free"):
            send_data(bench.host, scan_data(tmp_path / "corpus.bin"), "p-1", wait=no_wait)


@needs_strace
@pytest.mark.parametrize(
    ("error", "words"),
    [("EDQUOT", "over the disk quota"), ("ENOSPC", "no space left"), ("EROFS", "read-only")],
    ids=["fi-19-quota", "fi-17-space", "fi-20-read-only"],
)
def test_FI_17_FI_19_FI_20_a_write_that_fails_is_named_and_the_old_tree_stays(bench, tmp_path, error, words):
    bench.sync()
    older = contents(bench.tree)
    bench.write({"new.bin": noise(300_000)})
    staged = bench.home / "staging" / bench.scan().manifest.rows["new.bin"].source
    starter = TracedStarter(
        tmp_path / "trace", ["-e", "trace=write", "-P", str(staged), "-e", f"inject=write:error={error}"]
    )
    other = bench.other_host(starter)
    with pytest.raises(DiskFull, match=words) as full:
        sync_project(other, bench.scan(), bench.survey())
    other.close()
    assert starter.text.count("(INJECTED)") >= 1
    assert full.value.exit_code == ExitCode.DISK and contents(bench.tree) == older
    assert bench.sync().report.ok and contents(bench.tree) == contents(bench.root)
