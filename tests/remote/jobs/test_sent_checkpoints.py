"""A trainer checkpoint that was sent with the project is not taken for a checkpoint of the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.operations.jobs import prepare_resume
from remote.payload.checkpoints.found import find_checkpoints
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import decode
from remote.sync.sync import sync_project
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.test_checkpoints import save

STATE = "trainer_state.json"


def send_project(bench: Bench, root: Path, *, adapter_only: bool = False) -> None:
    """Send a project that contains the checkpoint of step 12 of an earlier training."""
    old = save(root / "old", 12)
    for path in old.iterdir():
        if adapter_only and not path.name.startswith("adapter"):
            path.unlink()
    (root / "train.py").write_text("print('training')\n")
    survey = decode(TreeSurvey, bench.host.ask("tree.survey", {"project": PROJECT}))
    assert sync_project(bench.host, scan_project(root, project=PROJECT, owner="me"), survey).report.ok


def train(bench: Bench, *words: object, number: int = 1, **request: object) -> list[str]:
    """Run a job to its end, and return the names of the checkpoints that the survey lists."""
    bench.start(*words, number=number, request=request)
    until(lambda: (survey := bench.survey()).job == number and survey.result, f"the end of job {number}")
    assert (Path(bench.layout.code) / "old" / "checkpoint-12").is_dir(), "the project's folder keeps its name"
    return [checkpoint.name for checkpoint in bench.survey().checkpoints]


@pytest.mark.parametrize("adapter_only", [True, False], ids=["incomplete", "complete"])
def test_a_checkpoint_of_the_project_is_not_one_of_the_run(bench: Bench, tmp_path: Path, adapter_only: bool) -> None:
    send_project(bench, tmp_path / "project", adapter_only=adapter_only)
    assert train(bench, "--steps", 5, "--save-every", 5) == ["checkpoints/checkpoint-5"]
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 5
    assert bench.survey().warnings == ()


def test_a_run_without_a_checkpoint_does_not_resume_from_one_of_the_project(bench: Bench, tmp_path: Path) -> None:
    send_project(bench, tmp_path / "project")
    assert train(bench, "--steps", 3) == []
    with pytest.raises(RemoteFault, match=r"no trainer checkpoint .* was saved") as fault:
        prepare_resume(bench.host, PROJECT, bench.run)
    assert fault.value.exit_code is ExitCode.CHECKPOINT


def test_a_checkpoint_that_a_job_replaces_counts(bench: Bench, tmp_path: Path) -> None:
    send_project(bench, tmp_path / "project")
    found = train(bench, "--steps", 12, "--save-every", 12, "--output", "old")
    assert found == ["code/old/checkpoint-12"]
    assert prepare_resume(bench.host, PROJECT, bench.run).checkpoint.step == 12


def test_a_checkpoint_of_the_project_does_not_count_in_the_code_of_earlier_jobs(bench: Bench, tmp_path: Path) -> None:
    send_project(bench, tmp_path / "project")
    assert train(bench, "--steps", 3) == []
    (tmp_path / "project" / "old" / "checkpoint-12" / STATE).write_text('{"global_step": 12, "epoch": 1}')
    survey = decode(TreeSurvey, bench.host.ask("tree.survey", {"project": PROJECT}))
    tree = scan_project(tmp_path / "project", project=PROJECT, owner="me")
    assert sync_project(bench.host, tree, survey).report.ok
    assert train(bench, "--steps", 3, number=2, fresh_code=True) == []
    assert find_checkpoints(bench.layout.root) == []


def test_results_beside_the_weights_do_not_make_it_one_of_the_run(bench: Bench, tmp_path: Path) -> None:
    send_project(bench, tmp_path / "project")
    train(bench, "--steps", 3)
    (Path(bench.layout.code) / "old" / "checkpoint-12" / "predictions.json").write_text("[]")
    assert find_checkpoints(bench.layout.root) == []
