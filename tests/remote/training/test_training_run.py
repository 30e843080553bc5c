"""Whole runs of the trainer as processes: their files, exits and resumes."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from pipeline.diagnosis.diagnose import diagnose_text
from remote.payload.checkpoints.published import newest_verified, verify
from remote.payload.proof.injection import watch_environment, write_hooks
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.job_process import read_spec
from remote.payload.training.run import fill_paths, train
from remote.payload.training.stop_request import StopRequest
from remote.protocol.jobs import Progress
from remote.protocol.training import DataSpec, ModelSpec, TrainingPaths, TrainingSpec, planned_steps
from remote.protocol.values import decode

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
SCALARS = {"loss", "grad_norm", "learning_rate", "skipped_steps", "tokens_per_second", "peak_memory"}


def scalars_of(spec: Any) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(spec.paths.tensorboard)
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def progress_of(spec: Any) -> Progress:
    return decode(Progress, json.loads((Path(spec.paths.run) / "progress.json").read_text()))


@pytest.mark.parametrize("model", ["tiny/phi4-multimodal", "tiny/qwen2-audio"])
def test_a_run_leaves_checkpoints_curves_an_adapter_and_scores(
    model: str, make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    spec = make_spec(model=model, evaluate=True, epochs=3, gradient_accumulation=1, learning_rate=1e-2)
    steps = planned_steps(12, batch_size=2, gradient_accumulation=1, epochs=3, tasks=2)
    code, out, err = training(spec).run()
    assert (code, err) == (0, "")
    assert f"step {steps}/{steps}  loss" in out
    scalars = scalars_of(spec)
    losses = [value for _, value in scalars["train/loss"]]
    assert [step for step, _ in scalars["train/loss"]] == list(range(1, steps + 1))
    assert sum(losses[-6:]) < sum(losses[:6]) * 2 / 3
    assert {f"train/{name}" for name in SCALARS} <= scalars.keys()
    assert progress_of(spec).step == progress_of(spec).steps == steps
    kept = sorted(path.name for path in Path(spec.paths.checkpoints).iterdir())
    assert kept == ["checkpoint-12", "checkpoint-18"]
    assert [verify(f"{spec.paths.checkpoints}/{name}") for name in kept] == ["", ""]
    adapter = {path.name for path in Path(spec.paths.adapter).iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "halfstep-adapter.json"} <= adapter
    metrics = json.loads((Path(spec.paths.run) / "metrics.json").read_text())
    assert metrics["step"] == steps
    assert set(metrics["apa"]) == {"answered", "accuracy", "fluency", "prosodic", "total"}
    assert {"answered", "wer", "per", "precision", "recall", "f1"} < set(metrics["mdd"])
    rows = [json.loads(line) for line in (Path(spec.paths.run) / "answers.jsonl").read_text().splitlines()]
    assert [row["task"] for row in rows] == ["apa", "mdd"] * 4
    assert scalars["eval/mdd/per"] == [(steps, pytest.approx(metrics["mdd"]["per"], rel=1e-6))]


@pytest.mark.parametrize(
    ("requested", "audio", "printed"),
    [
        ("fp32", "first", r"memory: micro-batches of up to 2 x \d+ tokens, 0 of 4 layers"),
        ("fp32", "last", r"memory: micro-batch 2 x 2, shared prefixes once, 0 of 4 layers"),
        ("fp16-mixed", "first", r"step 9/9 .* scale \d"),
    ],
    ids=["by tokens", "shared prefixes", "loss scale"],
)
def test_a_stopped_run_resumes_to_identical_weights(
    requested: str, audio: str, printed: str, make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    def spec_of(run: str, resume_from: str = "") -> TrainingSpec:
        spec = make_spec(run=run, epochs=3, requested=requested, resume_from=resume_from)
        # A loss scale of 2^24 overflows, so the first steps are skipped and halve it.
        precision = dataclasses.replace(spec.precision, init_scale=2.0**24) if spec.precision.scaler else spec.precision
        return dataclasses.replace(spec, precision=precision, data=dataclasses.replace(spec.data, audio_position=audio))

    whole, cut = spec_of("whole"), spec_of("cut")
    assert training(whole).run()[0] == 0
    process = training(cut).start()
    for line in process.stdout:
        if line.startswith("step 4/"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=300)
    assert process.returncode == 42
    run = Path(cut.paths.run)
    checkpoint = newest_verified(str(run))
    assert checkpoint is not None
    assert 4 <= checkpoint.step < 9
    assert checkpoint.step % 3, "stopped within an epoch, where order is hardest to keep"
    resumed = spec_of("cut", str(run / checkpoint.name))
    code, out, _ = training(resumed).run()
    assert code == 0
    assert re.search(printed, out), out
    assert f"step {checkpoint.step + 1}/9" in out
    assert f"step {checkpoint.step}/9" not in out
    assert training(resumed).sample_ids == training(whole).sample_ids
    one, two = (Path(spec.paths.adapter) / "adapter_model.safetensors" for spec in (whole, resumed))
    assert one.read_bytes() == two.read_bytes()
    kept = [tag for tag in scalars_of(whole) if tag not in ("train/tokens_per_second", "train/peak_memory")]
    # As text, because the gradient norm of a skipped step is NaN.
    assert {tag: str(scalars_of(resumed)[tag]) for tag in kept} == {tag: str(scalars_of(whole)[tag]) for tag in kept}
    assert [step for step, _ in scalars_of(resumed)["train/loss"]] == list(range(1, 10))


def test_fp16_with_a_scaler_trains_on_a_cpu_and_reports_skipped_steps(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    spec = make_spec(requested="fp16-mixed", epochs=3, samples=4, gradient_accumulation=1)
    scale = dataclasses.replace(spec.precision, init_scale=2.0**24)
    code, out, err = training(dataclasses.replace(spec, precision=scale)).run()
    assert (code, err) == (0, "")
    progress = progress_of(spec)
    assert progress.skipped_steps > 0, "a scale of 2^24 overflows float16 gradients"
    assert progress.loss_scale == 2.0 ** (24 - progress.skipped_steps)
    assert scalars_of(spec)["train/loss_scale"][-1] == (6, progress.loss_scale)
    checkpoint = Path(spec.paths.checkpoints) / "checkpoint-6"
    assert (checkpoint / "scaler.pt").exists()
    assert "loss scale from 1.67772e+07" in out


def test_the_live_watch_ends_a_pure_float16_training_whose_loss_is_nan(
    make_spec: Callable[..., Any], training: Callable[..., Any], tmp_path: Path
) -> None:
    spec = make_spec(requested="fp16-pure", model="tiny/qwen2-audio", samples=4, gradient_accumulation=1)
    Path(spec.paths.run).mkdir(exist_ok=True)
    hooks = write_hooks(str(tmp_path / "hooks"))
    code, _, err = training(spec, watch_environment(spec.paths.run, hooks, {}, progress=False)).run()
    assert code != 0
    assert "halfstep stopped this training: loss-finite: the loss is nan in step 2" in err
    assert "loss-finite" in [finding.check for finding in diagnose_text(err)]


def test_an_incomplete_checkpoint_is_not_resumed_from(
    make_spec: Callable[..., Any], training: Callable[..., Any], tmp_path: Path
) -> None:
    assert training(make_spec(max_steps=1, samples=4)).run()[0] == 0
    checkpoint = tmp_path / "run" / "checkpoints" / "checkpoint-1"
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "adapter_model.safetensors"):
        broken = tmp_path / "broken" / name / "checkpoint-1"
        shutil.copytree(checkpoint, broken)
        assert verify(str(broken)) == ""
        (broken / name).unlink()
        assert verify(str(broken)).startswith(f"{name}: ")
    code, _, err = training(make_spec(resume_from=str(tmp_path / "broken" / "optimizer.pt" / "checkpoint-1"))).run()
    assert code == 43
    assert err.startswith("halfstep stopped this training: checkpoint-broken: ")
    assert "optimizer.pt" in err


def test_an_unregistered_model_is_a_usage_error(make_spec: Callable[..., Any]) -> None:
    spec = dataclasses.replace(make_spec(), model=ModelSpec("tiny/llama"))
    with pytest.raises(TrainingFailed, match="tiny/phi4-multimodal, tiny/qwen2-audio") as failed:
        train(spec, StopRequest())
    assert (failed.value.name, failed.value.exit_code) == ("model-unknown", 2)


def test_a_missing_folder_of_data_is_named(make_spec: Callable[..., Any], tmp_path: Path) -> None:
    spec = dataclasses.replace(make_spec(), data=DataSpec(folder=str(tmp_path / "nothing")))
    with pytest.raises(TrainingFailed, match=str(tmp_path / "nothing")) as failed:
        train(spec, StopRequest())
    assert (failed.value.name, failed.value.exit_code) == ("data-missing", 40)


@pytest.mark.parametrize("words", ["{", "/no/such/spec.json", '{"model": 3}'])
def test_a_spec_that_cannot_be_read_is_named(words: str) -> None:
    with pytest.raises(TrainingFailed) as failed:
        read_spec(TrainingSpec, words)
    assert failed.value.name == "spec-unreadable"


def test_empty_paths_in_the_spec_come_from_the_job_s_environment() -> None:
    environment = {
        "HALFSTEP_RUN_DIR": "/r",
        "HALFSTEP_OUTPUT_DIR": "/elsewhere",
        "HALFSTEP_RESUME_FROM": "/r/checkpoint-3",
    }
    assert fill_paths(TrainingPaths("", "", "", "", "/c"), environment) == TrainingPaths(
        "/r", "/elsewhere", "/r/tensorboard", "/r/adapter", "/c", "/r/checkpoint-3"
    )
    assert fill_paths(TrainingPaths("/mine", "", "/tb", "", ""), {}) == TrainingPaths(
        "/mine", "/mine/checkpoints", "/tb", "/mine/adapter", "/mine/cache", ""
    )
