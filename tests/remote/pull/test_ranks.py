"""The output of several processes, by rank."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from remote.errors import PullRefused
from remote.pull import ranks
from remote.pull.ranks import split_by_rank


def write_output(folder: Path, text: str) -> None:
    path = folder / "jobs" / "2" / "output.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_each_rank_has_a_file_named_by_its_host(tmp_path: Path) -> None:
    write_output(tmp_path, "OMP_NUM_THREADS\n[rank0]:step 1\n[rank11]:step 1\n[rank0]:[rank1]: odd\nlast")
    names = split_by_rank(tmp_path, 2, "titan")
    assert names == ("jobs/2/ranks/titan-rank0.log", "jobs/2/ranks/titan-rank11.log")
    assert [(tmp_path / name).read_text() for name in names] == ["step 1\n[rank1]: odd\n", "step 1\n"]


def test_a_later_pull_replaces_them(tmp_path: Path) -> None:
    write_output(tmp_path, "[rank0]:one\n[rank0]:two\n")
    split_by_rank(tmp_path, 2, "titan")
    write_output(tmp_path, "[rank0]:1\n")
    split_by_rank(tmp_path, 2, "titan")
    assert (tmp_path / "jobs/2/ranks/titan-rank0.log").read_text() == "1\n"


def test_blocks_of_a_long_output_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "BLOCK_BYTES", 16)
    write_output(tmp_path, "".join(f"[rank{n % 2}]:line {n}\n" for n in range(100)))
    split_by_rank(tmp_path, 2, "b")
    lines = (tmp_path / "jobs/2/ranks/b-rank1.log").read_text().splitlines()
    assert lines == [f"line {n}" for n in range(1, 100, 2)]


def test_output_of_one_process_makes_no_files(tmp_path: Path) -> None:
    assert split_by_rank(tmp_path, 2, "titan") == ()
    write_output(tmp_path, "step 1\n")
    assert split_by_rank(tmp_path, 2, "titan") == ()
    assert not (tmp_path / "jobs/2/ranks").exists()


def test_a_host_cannot_make_thousands_of_files_or_write_through_a_link(tmp_path: Path) -> None:
    write_output(tmp_path, "".join(f"[rank{n}]:x\n" for n in range(5000)))
    assert len(split_by_rank(tmp_path, 2, "titan")) == ranks.MOST_RANKS
    other = tmp_path / "other"
    write_output(tmp_path / "run", "[rank0]:x\n")
    other.mkdir()
    (tmp_path / "run" / "jobs" / "2" / "ranks").symlink_to(other)
    with pytest.raises(PullRefused):
        split_by_rank(tmp_path / "run", 2, "titan")
    assert list(other.iterdir()) == []


def test_SE_a_log_that_is_one_long_line_is_split_in_bounded_memory(tmp_path: Path) -> None:
    long = "x" * (32 * ranks.BLOCK_BYTES)
    write_output(tmp_path, f"[rank1]:{long}[rank2]:odd\n[rank0]:y\n{long}\n[rank1]:z\n")
    tracemalloc.start()
    split_by_rank(tmp_path, 2, "titan")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "jobs/2/ranks/titan-rank1.log").read_text() == f"{long}[rank2]:odd\nz\n"
    assert (tmp_path / "jobs/2/ranks/titan-rank0.log").read_text() == "y\n"
    assert peak < 8 * ranks.BLOCK_BYTES


@pytest.mark.parametrize("link", ["jobs", "jobs/2", "jobs/2/output.log"])
def test_SE_output_behind_a_link_is_not_read(tmp_path: Path, link: str) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine"
    write_output(run, "[rank0]:secret\n")
    (run / link).rename(mine)
    (run / link).symlink_to(mine)
    with pytest.raises(PullRefused):
        split_by_rank(run, 2, "titan")
    assert not list(tmp_path.rglob("*rank0.log"))
