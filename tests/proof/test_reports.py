"""The ranks' reports are read while they are written."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from remote.payload.proof.seen import read_ranks


def write_again_and_again(folder: Path, over: threading.Event) -> None:
    """As a rank does: beside, then under its name."""
    path = folder / "rank-0-7.json"
    while not over.is_set():
        part = Path(f"{path}.part")
        part.write_text(json.dumps({"rank": 0, "state": "running"}))
        os.replace(part, path)


def test_a_report_that_is_being_written_does_not_disturb_who_reads(tmp_path: Path) -> None:
    over = threading.Event()
    writer = threading.Thread(target=write_again_and_again, args=(tmp_path, over))
    writer.start()
    try:
        for _ in range(2000):
            assert [rank["rank"] for rank in read_ranks(str(tmp_path))] in ([], [0])
    finally:
        over.set()
        writer.join()


def test_the_newest_report_of_a_rank_counts(tmp_path: Path) -> None:
    for number, (name, state) in enumerate((("rank-0-9.json", "running"), ("rank-0-5.json", "done"))):
        (tmp_path / name).write_text(json.dumps({"rank": 0, "state": state}))
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "rank-1-4.json.part").write_text("{")
    assert [rank["state"] for rank in read_ranks(str(tmp_path))] == ["done"]
