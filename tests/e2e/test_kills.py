"""kill -9 of `pipeline run` in every stage, then the same line again: one training, the same end, no work left."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.sshd import Sshd
from tests.soak import STAGES, kill_and_finish, new_world, strip_names, timeline

pytestmark = [pytest.mark.train, pytest.mark.ssh, pytest.mark.timeout(900)]


def test_a_run_killed_in_any_stage_ends_the_same(start_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    """One random moment a stage here; `make soak` kills five hundred times."""
    dice = random.Random(20)
    reference = new_world(tmp_path / "reference", start_sshd("reference-host"))
    spans = timeline(reference)
    honest = strip_names(reference.end_state())
    for stage in STAGES:
        world = new_world(tmp_path / stage, start_sshd(f"{stage}-host"))
        state = kill_and_finish(world, stage, dice.uniform(0.0, spans[stage]))
        assert sorted(strip_names(state)) == sorted(honest), stage
