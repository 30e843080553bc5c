"""The trainer in two processes under torchrun, with gloo: its files, exits and resumes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.payload.checkpoints.published import newest_verified, verify
from remote.protocol.training import planned_steps
from tests.lab.threads import LEFT

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]


def test_two_processes_share_the_work_and_leave_one_adapter_and_the_scores(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    spec = make_spec(evaluate=True)
    steps = planned_steps(12, batch_size=2, gradient_accumulation=2, epochs=2, tasks=2, processes=2)
    code, out, err = training(spec).run(processes=2)
    assert code == 0, err
    assert LEFT not in err
    assert f"step {steps}/{steps}  loss" in out
    checkpoint = Path(spec.paths.checkpoints) / f"checkpoint-{steps}"
    assert verify(str(checkpoint)) == ""
    assert {"rng_state_0.pth", "rng_state_1.pth"} <= {path.name for path in checkpoint.iterdir()}
    assert (Path(spec.paths.adapter) / "adapter_model.safetensors").exists()
    assert (Path(spec.paths.run) / "metrics.json").exists()


def test_two_processes_share_the_answers_of_a_validation(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    made = make_spec(epochs=1, gradient_accumulation=1, samples=4, eval_steps=1, best_metric="mdd/per")
    data = replace(made.data, validation_split="test", validation_samples=3)
    spec = replace(made, data=data, evaluation=replace(made.evaluation, batch_size=1, max_new_tokens=8))
    code, out, err = training(spec).run(processes=2)
    assert code == 0, err
    steps = planned_steps(4, batch_size=2, gradient_accumulation=1, epochs=1, tasks=2, processes=2)
    history = json.loads((Path(spec.paths.run) / "validation.json").read_text())
    # Answers of eight tokens are never in the requested format, so every phone is missed.
    assert [(row["step"], row["metric"]) for row in history["measured"]] == [(n, 1.0) for n in range(1, steps + 1)]
    assert f"step {steps}/{steps}  loss" in out


def test_two_processes_resume_within_an_epoch_to_identical_weights(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    settings = {"samples": 24, "epochs": 2, "gradient_accumulation": 1, "save_steps": 8}
    whole = make_spec(run="whole", **settings)
    assert training(whole).run(processes=2)[0] == 0
    middle = Path(whole.paths.checkpoints) / "checkpoint-8"
    resumed = make_spec(run="resumed", resume_from=str(middle), **settings)
    code, out, err = training(resumed).run(processes=2)
    assert code == 0, err
    assert "step 9/12" in out
    assert "step 8/12" not in out
    assert training(resumed).sample_ids == training(whole).sample_ids[8:]
    one, two = (Path(spec.paths.adapter) / "adapter_model.safetensors" for spec in (whole, resumed))
    assert one.read_bytes() == two.read_bytes()


def test_two_processes_have_the_losses_and_gradients_of_one(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    def spec_for(processes: int) -> Any:
        # The last step of the epoch has three samples, so that one of two processes has only one.
        loop = {"samples": 7, "epochs": 1, "gradient_accumulation": 2 // processes}
        made = make_spec(run=f"run{processes}", micro_batch=1, **loop)
        return replace(made, lora=replace(made.lora, dropout=0.0))

    logged = []
    for processes in (1, 2):
        spec = spec_for(processes)
        code, out, err = training(spec).run(processes=processes)
        assert code == 0, err
        assert "step 2/2  loss" in out
        state = json.loads((Path(spec.paths.checkpoints) / "checkpoint-2" / "trainer_state.json").read_text())
        logged.append([value for row in state["log_history"][:2] for value in (row["loss"], row["grad_norm"])])
    trained = [len(step) for step in training(spec_for(2)).sample_ids]
    assert trained == [2, 2]
    assert logged[0] == pytest.approx(logged[1], rel=1e-3)


def test_two_stopped_processes_save_one_checkpoint_together(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    spec = make_spec(epochs=200)
    process = training(spec).start(processes=2)
    for line in process.stdout:
        if line.startswith("step 2/"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=600)
    checkpoint = newest_verified(spec.paths.run)
    assert checkpoint is not None
    assert verify(f"{spec.paths.run}/{checkpoint.name}") == ""
    assert (Path(spec.paths.run) / checkpoint.name / "rng_state_1.pth").exists()
