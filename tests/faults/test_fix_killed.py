"""`fix` killed at each change on the laptop: all files are whole, originals are kept, the next try finishes."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.change import FileChange, Plan
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from tests.faults.kill_points import kill_at, kill_points, run_traced

BEFORE = {"train.py": b"dtype = bfloat16\n", "src/model.py": b"other = bfloat16\n"}
AFTER = {path: data.replace(b"bfloat16", b"float16") for path, data in BEFORE.items()}
FIX = """
import sys
from pathlib import Path
from fixers.frame.change import FileChange, Plan
from fixers.plans.on_disk import apply_to_disk
root = Path(sys.argv[1])
files = {path: (root / path).read_bytes() for path in ("train.py", "src/model.py")}
apply_to_disk(root, Plan(changes=tuple(
    FileChange(path, data, data.replace(b"bfloat16", b"float16"), {"bf16-to-fp16": 1}, ("why",))
    for path, data in files.items()
)))
"""


def make(root: Path) -> Path:
    for path, data in BEFORE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def read(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in BEFORE}


def apply_what_is_left(root: Path) -> None:
    changes = (FileChange(path, data, AFTER[path], {"bf16-to-fp16": 1}, ("why",)) for path, data in read(root).items())
    apply_to_disk(root, Plan(changes=tuple(change for change in changes if change.before != change.after)))


def test_FI_33_killed_at_any_change_the_originals_are_kept_and_a_second_try_finishes(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    counted = make(tmp_path / "counted")
    assert run_traced(FIX, (str(counted),), log).returncode == 0
    assert read(counted) == AFTER
    halves = 0
    renames = [
        kill_point
        for kill_point in kill_points(log, counted)
        if kill_point[0] in {"rename", "fsync", "fchmod", "renameat"}
    ]
    assert len(renames) >= 12, "each file, its original and the journal are written beside and renamed"
    for number, kill_point in enumerate(renames):
        finished, undone = make(tmp_path / f"finished-{number}"), make(tmp_path / f"undone-{number}")
        for root in (finished, undone):
            assert run_traced(FIX, (str(root),), log, kill_at(kill_point)).returncode != 0, kill_point
            found = read(root)
            assert all(data in (BEFORE[path], AFTER[path]) for path, data in found.items()), kill_point
            halves += found not in (BEFORE, AFTER)
        apply_what_is_left(finished)
        assert read(finished) == AFTER, kill_point
        for root in (finished, undone):
            assert undo_on_disk(root).findings == (), kill_point
            assert read(root) == BEFORE, kill_point
    assert halves, "some kill must have struck between two files"
