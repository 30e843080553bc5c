"""The job of an evaluation, derived from that of a training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import LoadedConfig, load_config
from pipeline.runs.evaluation import Adapter, AdapterWork, evaluation_work
from pipeline.runs.merging import merge_work
from remote.errors import BadUsage
from remote.policy.precision import judge_precision
from remote.protocol.evaluation import EvaluationSpec
from remote.protocol.jobs import JobSpec
from remote.protocol.training import DataSpec, LoopSpec, ModelSpec, TrainingPaths, TrainingSpec
from remote.protocol.values import decode, dumps

PLAN = judge_precision(capability=None)
TRAINING = TrainingSpec(
    ModelSpec("me/model"), DataSpec(folder="/data/1"), PLAN, TrainingPaths("", "", "", "", "/cache")
)
ADAPTER = Adapter("/runs/1/adapter", "a" * 64)


def job_of(training: TrainingSpec, *launcher: str) -> JobSpec:
    argv = (*(launcher or ("/venv/python", "-B")), "{payload}", "train", dumps(training).decode())
    return JobSpec("tiny-1", 2, "f", argv, environment={"A": "b"}, secrets=("HF_TOKEN",), steps=120, resume_from="/c")


def loaded(root: Path, evaluation: str = "{}") -> LoadedConfig:
    (root / "configs").mkdir(exist_ok=True)
    text = f"model: {{id: me/other}}\ndata: {{dataset: tiny-speech}}\nevaluation: {evaluation}\n"
    (root / "configs" / "tiny.yaml").write_text(text)
    return load_config("tiny", root)


def work(
    root: Path, training: TrainingSpec = TRAINING, evaluation: str = "{}", adapter: Adapter = ADAPTER
) -> AdapterWork:
    return evaluation_work(job_of(training), adapter, loaded(root, evaluation), project="p", config="tiny")


def test_the_job_evaluates_with_the_interpreter_model_and_data_of_the_training(tmp_path: Path) -> None:
    made = work(tmp_path, evaluation="{samples: 5}").job
    assert made.argv[:4] == ("/venv/python", "-B", "{payload}", "evaluate")
    spec = decode(EvaluationSpec, json.loads(made.argv[4]))
    assert (spec.training.model.id, spec.training.data.folder) == ("me/model", "/data/1")
    assert (spec.training.evaluation.samples, spec.training.paths.cache, spec.data) == (5, "/cache", "tiny-speech")
    assert (spec.adapter, spec.adapter_sha256) == ("/runs/1/adapter", "a" * 64)
    assert (made.environment, made.secrets, made.steps, made.resume_from) == ({"A": "b"}, ("HF_TOKEN",), None, "")


def test_torchrun_starts_the_evaluation_with_all_processes(tmp_path: Path) -> None:
    launcher = ("/venv/python", "-m", "torch.distributed.run", "--nproc-per-node", "2")
    made = evaluation_work(job_of(TRAINING, *launcher), ADAPTER, loaded(tmp_path), project="p", config="tiny")
    assert made.job.argv[:7] == (*launcher, "{payload}", "evaluate")


def test_the_same_work_has_the_same_run_and_different_work_a_different_one(tmp_path: Path) -> None:
    first = work(tmp_path).run
    assert first.startswith("evaluate-tiny-")
    assert work(tmp_path, replace(TRAINING, train=LoopSpec(epochs=9))).run == first
    assert work(tmp_path, evaluation="{batch_size: 8}").run == first, "8 is what the training used"
    watched = replace(TRAINING, data=replace(TRAINING.data, validation_split="dev"))
    assert work(tmp_path, watched).run == first
    others = {
        work(tmp_path, evaluation="{samples: 5}").run,
        work(tmp_path, evaluation="{temperature: 0.5}").run,
        work(tmp_path, replace(TRAINING, data=DataSpec(folder="/data/2"))).run,
        work(tmp_path, adapter=replace(ADAPTER, sha256="b" * 64)).run,
    }
    assert len(others | {first}) == 5


@pytest.mark.parametrize("argv", [("python", "train.py"), ("python", "{payload}", "train", "not json")])
def test_a_training_by_the_projects_own_command_is_refused(tmp_path: Path, argv: tuple[str, ...]) -> None:
    with pytest.raises(BadUsage, match="the project's own command"):
        evaluation_work(JobSpec("r", 1, "f", argv), ADAPTER, loaded(tmp_path), project="p", config="tiny")


def test_the_hint_for_such_a_training_names_the_command_that_was_typed(tmp_path: Path) -> None:
    job = JobSpec("r", 1, "f", ("python", "train.py"))
    with pytest.raises(BadUsage) as evaluated:
        evaluation_work(job, ADAPTER, loaded(tmp_path), project="p", config="tiny")
    with pytest.raises(BadUsage) as merged:
        merge_work(job, ADAPTER, "/out", dequantize=False, project="p", config="tiny")
    assert "pipeline evaluate --adapter" in evaluated.value.hint
    assert "evaluate" not in merged.value.hint and "merge_and_unload()" in merged.value.hint
