"""The reports of ranks can be read while they are being written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from remote.payload.proof.evidence import Ranks
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.judge import summarize_step

READS = 20_000
# As a rank does: written beside the file, then renamed.
WRITER = """
import os, sys
path = sys.argv[1] + "/rank-0-7.json"
while True:
    with open(path + ".part", "w") as file:
        file.write('{"rank": 0, "state": "running"}')
    os.replace(path + ".part", path)
"""


def test_a_report_can_be_read_while_it_is_being_replaced(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) as writer:
        try:
            while not Ranks(str(tmp_path)).read():
                assert writer.poll() is None
            for _ in range(READS):
                assert [rank.rank for rank in Ranks(str(tmp_path)).read()] == [0]
        finally:
            writer.kill()


def test_the_newest_report_of_a_rank_counts(tmp_path: Path) -> None:
    for number, (name, state) in enumerate((("rank-0-9.json", "running"), ("rank-0-5.json", "done"))):
        (tmp_path / name).write_text(json.dumps({"rank": 0, "state": state}))
        os.utime(tmp_path / name, (number, number))
    (tmp_path / "rank-1-4.json.part").write_text("{")
    assert [rank.state for rank in Ranks(str(tmp_path)).read()] == ["done"]


def test_the_loss_of_a_step_is_that_of_all_its_micro_steps() -> None:
    step = Step(1, True, (3.75, 3.5))
    assert summarize_step(step).loss == 7.25
    assert summarize_step(replace(step, losses=())).loss is None
    assert summarize_step(replace(step, losses=(1.0, float("nan")))).loss is None
