"""The run id changes with whatever makes old checkpoints unusable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.config.load import load_config
from pipeline.config.model import RunConfig
from pipeline.runs.run_id import run_id, run_of, training_settings, work_fingerprint, work_inputs
from pipeline.runs.view import View
from pipeline.stages.new_run import has_other_inputs
from remote.project.scan import scan_project
from remote.protocol.jobs import Checkpoint, JobState, RunSurvey
from remote.protocol.machine import Gpu, Torch
from remote.protocol.tree import TreeSurvey
from tests.pipeline.views import view_of

TITAN = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * 2**30)


def asks(view: View, *overrides: str) -> View:
    return replace(view, loaded=load_config("plain", view.loaded.root, overrides))


def elsewhere(view: View, **facts: object) -> View:
    """Return the same work on a host whose survey has these facts."""
    return view.with_survey(replace(view.survey, **facts))  # type: ignore[arg-type]


def with_torch(view: View, version: str) -> View:
    return elsewhere(view, interpreter=replace(view.survey.interpreter, torch=Torch(version)))


OTHER_WORK = {
    "world size": lambda view: asks(view, "processes=2"),
    "model": lambda view: asks(view, "model={id: tiny/qwen2-audio}"),
    "rank of the adapter": lambda view: asks(view, "lora.r=8"),
    "precision": lambda view: asks(view, "precision=fp32"),
    "torch": lambda view: with_torch(view, "2.14.0"),
    "card": lambda view: elsewhere(view, gpus=(TITAN,)),
    "files": lambda view: elsewhere(view, tree=replace(view.survey.tree, installed_digest="0" * 64)),
}


@pytest.mark.parametrize("what", OTHER_WORK)
def test_BI_57_different_work_is_a_different_run_whose_checkpoints_are_not_resumed(tmp_path: Path, what: str) -> None:
    view = view_of(tmp_path)
    run = run_of(view)
    assert run is not None
    saved = replace(run, checkpoints=(Checkpoint("checkpoints/checkpoint-10", 10, 10**6),))
    view = elsewhere(view, runs=(saved,))
    assert run_of(view) == saved
    other = OTHER_WORK[what](view)
    assert run_id(other) != run_id(view)
    assert run_of(other) is None
    assert {key for key, value in work_inputs(other).items() if work_inputs(view)[key] != value}, "no input tells"


@pytest.mark.parametrize("override", ["grace_s=5", "notify=mail me", "secrets=[HF_TOKEN]", "fixers={port: off}"])
def test_a_change_that_does_not_affect_the_training_keeps_the_run(tmp_path: Path, override: str) -> None:
    view = view_of(tmp_path)
    assert run_id(asks(view, override)) == run_id(view)


def test_the_same_work_is_the_same_run_in_every_survey(tmp_path: Path) -> None:
    found = [run_of(view_of(tmp_path)) for _ in range(2)]
    assert isinstance(found[0], RunSurvey)
    assert found[0] == found[1]


RESUMED = RunSurvey("plain-00000000", "plain", "first inputs", 2, JobState.SUCCEEDED)


def test_the_run_that_was_resumed_with_the_current_inputs_is_found_by_the_host_s_record_of_its_job(
    tmp_path: Path,
) -> None:
    view = replace(view_of(tmp_path), serial=None)
    new, work = run_id(elsewhere(view, runs=(RESUMED,))), work_fingerprint(view)
    assert new != RESUMED.run, "a run with other inputs"
    resumed = replace(RESUMED, newest_fingerprint=work)
    assert run_id(elsewhere(view, runs=(RESUMED, resumed))) == RESUMED.run
    assert run_id(elsewhere(view, runs=(replace(resumed, config="other"),))) == new
    assert run_id(elsewhere(view, runs=(resumed, replace(RESUMED, run=new, fingerprint=work)))) == new
    assert run_id(replace(elsewhere(view, runs=(resumed,)), serial=2)) == f"{new}-2"


@pytest.mark.parametrize(("newest", "other"), [("", True), ("work", False), ("else", True)])
def test_a_job_gets_new_code_if_the_newest_job_of_the_run_had_other_inputs(
    tmp_path: Path, newest: str, other: bool
) -> None:
    view = replace(view_of(tmp_path), resume=RESUMED.run)
    fingerprint = work_fingerprint(view) if newest == "work" else newest
    assert has_other_inputs(elsewhere(view, runs=(replace(RESUMED, newest_fingerprint=fingerprint),))) is other


def with_file(view: View, path: str, text: str) -> View:
    """Return the same project with that file in it, on both sides."""
    (view.loaded.root / path).parent.mkdir(parents=True, exist_ok=True)
    (view.loaded.root / path).write_text(text)
    scan = scan_project(view.loaded.root)
    digest = scan.manifest.source_digest()
    return replace(elsewhere(view, tree=TreeSurvey(True, digest, digest, len(scan.manifest.rows))), scan=scan)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("configs/other.yaml", "project: .\ncommand: [python, other.py]\n"),
        ("configs/hosts/titan.yaml", "host: titan.lab\ngpus: [0]\n"),
        ("configs/typo.yaml", "project: .\ncommand: [python, other.py]\nprecison: fp32\n"),
        ("configs/hosts/typo.yaml", "host: titan.lab\nprot: 22\n"),
        ("configs/plain.yaml", "# a word on it\nproject: .\ncommand: [python, train.py]\n"),
    ],
)
def test_another_config_or_host_beside_it_is_the_same_work(tmp_path: Path, path: str, text: str) -> None:
    view = view_of(tmp_path)
    assert run_id(with_file(view, path, text)) == run_id(view)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("configs/model.yaml", "hidden_size: 64\nproject: speech\n"),
        ("configs/model.yaml", "processes: 4\n"),
        ("configs/broken.yaml", "project: [\n"),
        ("configs/hosts.txt", "host: titan\n"),
        ("other.yaml", "project: .\ncommand: [python, train.py]\n"),
    ],
)
def test_a_change_of_a_file_that_the_script_may_read_makes_a_new_run(tmp_path: Path, path: str, text: str) -> None:
    view = view_of(tmp_path)
    assert run_id(with_file(view, path, text)) != run_id(view)


def test_a_config_that_the_command_names_is_read_by_it(tmp_path: Path) -> None:
    view = asks(view_of(tmp_path), "command=[python, train.py, --like, configs/other.yaml]")
    assert run_id(with_file(view, "configs/other.yaml", "project: .\n")) != run_id(view)


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({"command": ["python", "a.py"]}, {"command": ["python", "a.py"]}),
        ({"command": ["python", "a.py"], "train": {"epochs": 3}, "processes": 1}, {"command": ["python", "a.py"]}),
        ({"model": {"id": "a/b"}, "train": {"epochs": 4}}, {"model": {"id": "a/b"}, "train": {"epochs": 4}}),
        ({"slurm": {"time": 30}, "notify": "true"}, {}),
    ],
)
def test_only_settings_that_differ_from_their_defaults_count(values: dict[str, Any], settings: dict[str, Any]) -> None:
    assert training_settings(RunConfig.model_validate(values)) == settings


class Counted(dict[str, Any]):
    """A dict that counts how often its items are read."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        return super().items()


def counted(view: View) -> tuple[View, Counted]:
    rows = Counted(view.scan.manifest.rows)
    return replace(view, scan=replace(view.scan, manifest=replace(view.scan.manifest, rows=rows))), rows


def test_the_files_of_a_view_are_compared_once(tmp_path: Path) -> None:
    view, rows = counted(view_of(tmp_path))
    first = work_fingerprint(view)
    reads = rows.reads
    assert run_of(view) is not None
    assert (work_fingerprint(view), rows.reads) == (first, reads)
    assert reads > 0


def test_a_new_survey_is_compared_with_the_files_again(tmp_path: Path) -> None:
    view, rows = counted(view_of(tmp_path))
    first = work_fingerprint(view)
    reads = rows.reads
    changed = elsewhere(view, tree=replace(view.survey.tree, installed_digest="0" * 64))
    assert work_fingerprint(changed) != first
    assert work_fingerprint(view.with_survey(view.survey)) == first == work_fingerprint(view)
    assert rows.reads > reads
