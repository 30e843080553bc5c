"""The predicted time of a step: the mean of the measured ones, or by tokens where the trainer plans its steps."""

from __future__ import annotations

import pytest

from remote.payload.proof.checks_device import step_seconds
from remote.payload.proof.evidence import Evidence
from remote.payload.proof.hooks import quiet as quiet_hooks
from remote.payload.proof.hooks.quiet import Ledger, quiet
from remote.payload.proof.hooks.report import RankReport
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.judge import judge_proof
from remote.policy.precision import judge_precision
from remote.protocol.proof import ProofRequest
from remote.protocol.training import MemoryPlan

REQUEST = ProofRequest("project", ("python",), judge_precision(capability=(7, 5)), run_steps=100)
PLAN = MemoryPlan(2, 4, 0, 4, first_tokens=(3000, 500, 1000, 700), mean_tokens=1500.0)


def measured(seconds: tuple[float, ...], memory: MemoryPlan | None = None) -> Evidence:
    steps = tuple(Step(number, True, seconds=each) for number, each in enumerate(seconds, 1))
    return Evidence(REQUEST, (RankReport(0, "done", steps=steps),), memory=memory)


@pytest.mark.parametrize(
    ("seconds", "memory", "expected"),
    [
        pytest.param((9.0, 1.0, 3.0), None, 2.0, id="the mean without the warm-up"),
        pytest.param((9.0, 0.5, 1.0), PLAN, 1.5, id="a millisecond per token"),
        pytest.param((9.0, 0.25), PLAN, 0.75, id="one short step of a run with long ones"),
        pytest.param((9.0, 1, 1, 1, 2), PLAN, 1.25, id="more steps than the plan lists"),
        pytest.param((9.0, 1.0, 3.0), MemoryPlan(2, 4, 0, 4), 2.0, id="a plan without tokens"),
        pytest.param((9.0,), PLAN, None, id="only the warm-up"),
        pytest.param((), None, None, id="no step"),
    ],
)
def test_the_time_of_an_average_step(
    seconds: tuple[float, ...], memory: MemoryPlan | None, expected: float | None
) -> None:
    evidence = measured(seconds, memory)
    assert step_seconds(evidence) == (None if expected is None else pytest.approx(expected))


def test_the_time_of_the_run_follows_from_an_average_step() -> None:
    assert judge_proof(measured((9.0, 0.25), PLAN)).eta_s == pytest.approx(75.0)


class Recorder:
    """Hooks whose own work before and after the wait for the card takes `before` and `after` seconds."""

    def __init__(self, before: float, after: float) -> None:
        self.ledger = Ledger()
        self.before, self.after, self.now, self.seconds = before, after, self.ledger.since, []

    def perf_counter(self) -> float:
        return self.now

    @quiet
    def after_step(self) -> None:
        self._look()
        entered = self.now
        self.now += 0.25  # the wait for the card
        self.seconds.append(self.ledger.end_step(entered, self.now))
        self.now += self.after

    @quiet
    def _look(self) -> None:
        self.now += self.before


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (3.0, 2.0)])
def test_the_time_of_the_hooks_belongs_to_no_step(before: float, after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(before, after)
    monkeypatch.setattr(quiet_hooks, "time", recorder)
    for _ in range(3):
        recorder.now += 1.0
        recorder.after_step()
    assert recorder.seconds == pytest.approx([1.25, 1.25, 1.25])
