"""What `verify` and `plan` foresee of each stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.preview import preview_stages
from pipeline.messages.outcome import StageState
from pipeline.records.checkpoints import Claims, claim_now
from pipeline.stages.order import STAGE_NAMES, STAGES
from pipeline.stages.stage import fingerprint
from pipeline.work.view import View
from tests.pipeline.views import view_of


def claims_of(view: View) -> Claims:
    claims = Claims()
    for stage in STAGES:
        claims = claims.with_claim(
            claim_now(stage.name, fingerprint(stage, view), dict(stage.inputs(view)), seconds=0.0)
        )
    return claims


@pytest.mark.parametrize(
    ("files_change", "work"), [(False, ()), (True, ("verify", "train", "logs"))], ids=["as they are", "will change"]
)
def test_a_proof_and_a_training_of_other_files_do_not_hold(
    tmp_path: Path, files_change: bool, work: tuple[str, ...]
) -> None:
    view = view_of(tmp_path)
    seen = preview_stages(view, claims_of(view), files_change=files_change)
    assert tuple(stage.name for stage in seen if stage.state is StageState.PENDING) == work
    assert tuple(stage.name for stage in seen) == STAGE_NAMES


def test_without_a_record_every_stage_has_work(tmp_path: Path) -> None:
    seen = preview_stages(view_of(tmp_path), Claims(), files_change=False)
    assert {stage.state for stage in seen} == {StageState.PENDING}
