"""The validation loss: it leaves the training unchanged, selects the adapter, stops early, and survives a resume."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from remote.payload.checkpoints.published import newest_verified
from remote.payload.training.validation import History, Measured

pytestmark = [pytest.mark.timeout(900)]


def history(*losses: float) -> History:
    return History([Measured(2 * number, loss) for number, loss in enumerate(losses, 1)])


def test_the_best_loss_is_the_first_of_the_lowest_and_never_nan() -> None:
    assert history().best is None
    assert history(float("nan")).best is None
    assert history(3.0, 1.0, float("nan"), 1.0).best == Measured(4, 1.0)


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("mdd/per", (0.9, 0.5, 0.7), 2),
        ("mdd/per_answered", (0.9, 0.5, 0.5), 2),
        ("speech/cer", (0.1, 0.5), 1),
        ("mdd/f1", (0.1, 0.5, 0.3), 2),
        ("apa/total/pearson_all", (None, -0.5, 0.2), 3),
        ("apa/total/pearson", (None, None), None),
    ],
)
def test_the_best_metric_is_the_lowest_error_rate_or_the_highest_of_any_other(
    metric: str, values: tuple[float | None, ...], best: int | None
) -> None:
    found = History([Measured(number, 1 / number, value) for number, value in enumerate(values, 1)], metric).best
    assert (found.step if found is not None else None) == best


@pytest.mark.parametrize(
    ("losses", "patience", "stops"),
    [
        ((3.0, 2.0, 1.0), 1, False),
        ((3.0, 1.0, 2.0), 1, True),
        ((3.0, 1.0, 2.0), 2, False),
        ((3.0, 1.0, 2.0, 1.0), 2, True),
        ((3.0, 2.0, 2.5, 1.0), 2, False),
        ((float("nan"),), 3, True),
    ],
)
def test_training_stops_after_the_configured_number_of_losses_that_are_not_lower(
    losses: tuple[float, ...], patience: int, stops: bool
) -> None:
    assert history(*losses).stopped_improving(patience) is stops


def test_steps_that_are_trained_again_are_forgotten() -> None:
    assert history(3.0, 2.0, 1.0).up_to(5) == history(3.0, 2.0)


def with_validation(spec: Any, **loop: Any) -> Any:
    data = replace(spec.data, validation_split="test", validation_samples=2)
    return replace(spec, data=data, train=replace(spec.train, **loop))


def weights(path: Path) -> dict[str, Any]:
    return load_file(path / "adapter_model.safetensors")


def equal(one: Path, other: Path) -> bool:
    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all((first[name] == second[name]).all() for name in first)


def measured(spec: Any) -> list[Any]:
    return json.loads((Path(spec.paths.run) / "validation.json").read_text())["measured"]


@pytest.mark.train
def test_validation_leaves_the_training_unchanged_and_exports_the_best_adapter(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    plain = make_spec(run="plain", epochs=2)
    watched = with_validation(make_spec(run="watched", epochs=2), eval_steps=2)
    assert training(plain).run()[0] == 0
    code, out, err = training(watched).run()
    assert code == 0, out + err
    last = sorted(Path(watched.paths.checkpoints).iterdir())[-1]
    assert equal(last, Path(plain.paths.checkpoints) / last.name), "the validation changed the training"
    rows = measured(watched)
    assert [row["step"] for row in rows] == [2, 4, 6]
    best = min(rows, key=lambda row: row["loss"])
    record = json.loads((Path(watched.paths.adapter) / "halfstep-adapter.json").read_text())
    assert record["step"] == best["step"]
    assert "validation loss" in out
    assert equal(Path(watched.paths.adapter), Path(watched.paths.run) / "best")


@pytest.mark.train
def test_the_exported_adapter_has_the_best_metric_and_answers_leave_the_training_unchanged(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    loop = {"samples": 4, "epochs": 1, "gradient_accumulation": 1}
    plain = make_spec(run="plain", **loop)
    watched = with_validation(make_spec(run="watched", **loop), eval_steps=1, best_metric="mdd/per")
    # Sampled answers draw random numbers, and answers of eight tokens are never in the requested format.
    watched = replace(watched, evaluation=replace(watched.evaluation, temperature=1.0, max_new_tokens=8))
    assert training(plain).run()[0] == 0
    code, out, err = training(watched).run()
    assert code == 0, out + err
    last = sorted(Path(watched.paths.checkpoints).iterdir())[-1]
    assert equal(last, Path(plain.paths.checkpoints) / last.name), "the answers changed the training"
    assert "step 1/2  loss" in out, "the loss of a step is logged whether or not it is followed by a measurement"
    rows = measured(watched)
    assert [(row["step"], row["metric"]) for row in rows] == [(1, 1.0), (2, 1.0)]
    assert rows[1]["loss"] < rows[0]["loss"], "by loss, the last adapter would be exported"
    assert json.loads((Path(watched.paths.adapter) / "halfstep-adapter.json").read_text())["step"] == 1
    assert "the adapter of step 1 has the best validation mdd/per 1.0000" in out


@pytest.mark.train
def test_a_run_that_diverges_stops_early_with_the_adapter_of_its_best_step(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    spec = with_validation(
        make_spec(run="diverges", epochs=20, learning_rate=3.0, scheduler="constant"), eval_steps=1, early_stop=2
    )
    code, out, err = training(spec).run()
    assert code == 0, out + err
    rows = measured(spec)
    best = min(rows, key=lambda row: row["loss"])
    assert rows[-1]["step"] == best["step"] + 2 < 60
    assert "stopping early" in out
    assert json.loads((Path(spec.paths.adapter) / "halfstep-adapter.json").read_text())["step"] == best["step"]


@pytest.mark.train
def test_a_resumed_run_has_the_history_of_an_uninterrupted_one(
    make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    whole = with_validation(make_spec(run="whole", epochs=2), eval_steps=1)
    cut = with_validation(make_spec(run="cut", epochs=2), eval_steps=1)
    assert training(whole).run()[0] == 0
    process = training(cut).start()
    for line in process.stdout:
        if line.startswith("step 3/"):
            process.send_signal(signal.SIGTERM)
            break
    process.communicate(timeout=300)
    assert process.returncode == 42
    checkpoint = newest_verified(str(cut.paths.run))
    resume_from = f"{cut.paths.run}/{checkpoint.name}"
    resumed = replace(cut, paths=replace(cut.paths, resume_from=resume_from))
    code, out, err = training(resumed).run()
    assert code == 0, out + err
    assert measured(resumed) == measured(whole)
    assert equal(Path(resumed.paths.adapter), Path(whole.paths.adapter))
