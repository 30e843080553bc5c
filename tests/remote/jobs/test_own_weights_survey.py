"""A run that ended early without a verified checkpoint lists the files with weights that its script saved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.payload.checkpoints.own_files import MOST, newest_own_files
from remote.protocol.saved import Checkpoint
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench


def write(root: Path, *names: str) -> None:
    for at, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (1000 + at, 1000 + at))


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (
            ("code/chkpt/tiny_0001.pt", "code/chkpt/tiny_0002.pt"),
            ["code/chkpt/tiny_0002.pt", "code/chkpt/tiny_0001.pt"],
        ),
        (("code/lightning_logs/version_0/checkpoints/last.ckpt",), None),
        (("code/ckpt/g_00010000", "code/ckpt/do_00010000"), ["code/ckpt/do_00010000", "code/ckpt/g_00010000"]),
        (
            ("code/out/state-10/model.safetensors", "code/out/state-10/optimizer.bin"),
            ["code/out/state-10/model.safetensors"],
        ),
        (("checkpoints/checkpoint-20/random_states_0.pkl", "checkpoints/epoch.tar"), ["checkpoints/epoch.tar"]),
        (("checkpoints/checkpoint-10/model.safetensors",), []),
        (("code/out/broken-checkpoint-10-x/model.safetensors",), []),
        (
            ("code/train.py", "code/log.txt", "code/out/scheduler.pt", "code/data-2024", "jobs/1/a.pt"),
            [],
        ),
    ],
)
def test_files_with_weights_are_listed_newest_first(tmp_path: Path, names: tuple[str, ...], listed: list[str]) -> None:
    write(tmp_path, *names)
    broken = (Checkpoint("checkpoints/checkpoint-10", 10, problem="x"),)
    assert list(newest_own_files(str(tmp_path), broken)) == (list(names) if listed is None else listed)


def test_the_list_is_short(tmp_path: Path) -> None:
    write(tmp_path, *(f"code/ckpt/{step}.pt" for step in range(MOST + 5)))
    found = newest_own_files(str(tmp_path), ())
    assert len(found) == MOST and found[0] == f"code/ckpt/{MOST + 4}.pt"


@pytest.mark.parametrize("ended", [0, 1])
def test_only_a_run_that_ended_early_is_searched(bench: Bench, ended: int) -> None:
    bench.start("--steps", 3, "--exit", ended)
    until(lambda: bench.survey().result, "the end")
    write(Path(bench.layout.root), "code/g.pt")
    assert bench.survey().own_files == (("code/g.pt",) if ended else ())
