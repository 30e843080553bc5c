"""`fixers: {runtime: auto}` reaches the proof and the job, and is part of the run's identity only if it is on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.run_id import run_id, training_inputs
from pipeline.runs.runtime import describe_runtime
from pipeline.runs.start import start_request
from pipeline.runs.view import View
from pipeline.stages.verify import proof_request
from remote.protocol.machine import Gpu
from remote.protocol.runtime import RUNTIME
from tests.pipeline.views import view_of


def view_with(root: Path, capability: tuple[int, int], *overrides: str) -> View:
    view = view_of(root, None)
    gpu = Gpu(0, "", "card", capability, 24 * 2**30, assumed=True)
    return replace(
        view, loaded=load_config("plain", root, overrides), survey=replace(view.survey, gpus=(gpu,), runs=())
    )


@pytest.mark.parametrize(("capability", "autocast"), [((7, 5), "float16"), ((8, 6), "bfloat16")])
def test_the_plan_of_the_card_is_passed_to_the_proof_and_to_the_job(
    tmp_path: Path, capability: tuple[int, int], autocast: str
) -> None:
    view = view_with(tmp_path, capability, "fixers.runtime=auto")
    job, proof = start_request(view, "run-1", 2, "checkpoint-5").spec.environment, proof_request(view).environment
    assert job[RUNTIME] == proof[RUNTIME]
    assert json.loads(job[RUNTIME])["autocast"] == autocast
    assert "runtime: auto applies" in describe_runtime(view)


@pytest.mark.parametrize(
    "overrides",
    [(), ("fixers.runtime=off",), ("fixers.runtime=auto", "precision=fp32"), ("fixers.runtime=never",)],
    ids=["by default", "off", "in float32", "never"],
)
def test_without_the_runtime_nothing_is_passed(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    view = view_with(tmp_path, (7, 5), *overrides)
    assert RUNTIME not in start_request(view, "run-1", 1, "").spec.environment
    assert "runtime" not in training_inputs(view)


def test_enabling_the_runtime_makes_a_new_run(tmp_path: Path) -> None:
    without, off = view_with(tmp_path, (7, 5)), view_with(tmp_path, (7, 5), "fixers.runtime=off")
    assert run_id(without) == run_id(off)
    assert run_id(view_with(tmp_path, (7, 5), "fixers.runtime=auto")) != run_id(without)
