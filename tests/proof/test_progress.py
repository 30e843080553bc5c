"""What the hooks report about the whole training: planned steps, best loss, pace."""

from __future__ import annotations

import math
import weakref
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nan

from remote.payload.proof.hooks.progress import ProgressRecord, planned_steps_of
from remote.payload.proof.hooks.step import Step


def trainer(max_steps: object) -> object:
    """Return an object of a user's class that inherits from the Trainer of transformers."""
    base = type("Trainer", (), {"__module__": "transformers.trainer"})
    made = type("MyTrainer", (base,), {"__module__": "__main__"})()
    made.state = SimpleNamespace(max_steps=max_steps)
    return made


def loop(steps: object, *, automatic: bool = True) -> object:
    """Return a loop of Lightning's Trainer."""
    made = type("FitLoop", (), {"__module__": "lightning.pytorch.loops.fit_loop"})()
    module = SimpleNamespace(automatic_optimization=automatic)
    made.trainer = SimpleNamespace(estimated_stepping_batches=steps, lightning_module=module)
    return made


@pytest.mark.parametrize(
    ("owners", "steps"),
    [
        ([object(), trainer(120)], 120),
        ([trainer(-1)], None),
        ([trainer(None)], None),
        ([loop(60)], 60),
        ([loop(math.inf)], None),
        ([loop(60, automatic=False)], None),
        ([SimpleNamespace(state=SimpleNamespace(max_steps=5))], None),
        ([], None),
    ],
)
def test_the_planned_steps_are_those_of_the_trainer_on_the_stack(owners: list[object], steps: int | None) -> None:
    assert planned_steps_of(iter(owners)) == steps


class Batch:
    pass


def test_the_search_finds_the_calling_trainer_and_keeps_no_reference_to_its_variables() -> None:
    record, made = ProgressRecord(), trainer(9)

    def train(self: object) -> bool:
        batch = Batch()
        seen = weakref.ref(batch)
        record.find_planned()
        del batch
        return seen() is None

    assert train(made) and record.planned == 9


def test_the_stack_is_not_searched_if_the_steps_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HALFSTEP_STEPS", "7")
    record = ProgressRecord()

    def train(self: object) -> None:
        record.find_planned()

    train(trainer(9))
    assert record.planned == 7


def step(number: int, *losses: float) -> Step:
    return Step(number=number, applied=True, losses=list(losses), grad_norm=1.0, applied_norm=1.0, seconds=0.5)


def test_a_resumed_job_continues_the_mean_and_the_lowest_loss_of_the_run(tmp_path: Path) -> None:
    """A step that is trained again counts once, with its later loss."""
    path = str(tmp_path / "losses.txt")
    first = ProgressRecord(path)
    for number, loss in enumerate([5.0] + [4.0] * 19 + [1.0], 1):
        first.row(step(number, loss), began=0, skipped=0)
    first.file.write()
    with open(path, "a") as torn:
        torn.write("22 0.")
    second = ProgressRecord(path)
    row = second.row(step(1, 4.0), began=20, skipped=0)
    assert (row["step"], row["first_loss"], row["loss"], row["best_loss"]) == (21, 5.0, 4.0, 4.0)
    second.file.write()
    assert len(Path(path).read_text().splitlines()) == 21
    again = ProgressRecord(path).row(step(1, 9.0), began=0, skipped=0)
    assert (again["first_loss"], again["best_loss"]) == (9.0, 9.0), "a run that starts again has only the new losses"


def test_a_row_has_the_lowest_loss_so_far_and_the_mean_time_from_step_to_step() -> None:
    record = ProgressRecord()
    first = record.row(step(1, 2.0, 1.0), began=80, skipped=0)
    assert (first["step"], first["loss"], first["best_loss"], first["pace_seconds"]) == (81, 3.0, 3.0, None)
    second = record.row(step(2, nan), began=80, skipped=0)
    assert (second["loss"], second["best_loss"]) == (3.0, 3.0), "a loss that is not finite is not part of the mean"
    assert second["pace_seconds"] >= 0.0
    assert record.row(step(3, 1.0), began=80, skipped=1)["best_loss"] == 2.0, "the lowest mean"
