"""Ranks that train the same model must apply the same gradients."""

from __future__ import annotations

import pytest

from remote.payload.proof import checks_gradient_flow
from remote.payload.proof.evidence import Evidence
from remote.payload.proof.hooks.report import ModelTables, RankReport, TrainedTensors
from remote.payload.proof.hooks.step import Step
from remote.policy.precision import judge_precision
from remote.protocol.findings import Severity
from remote.protocol.proof import ProofRequest


@pytest.mark.parametrize(("second", "severity"), [(0.52, "error"), (0.5000001, "info")])
def test_ranks_that_apply_different_gradients_are_reported(second, severity):
    ranks = tuple(_replicated(at, norm, weights_sum=norm) for at, norm in enumerate((0.5, second)))
    assert [finding.severity.value for finding in _gradient_reduced(ranks)] == [severity]


def test_ranks_that_average_their_weights_may_apply_different_gradients():
    ranks = tuple(_replicated(at, norm, weights_sum=1.0) for at, norm in enumerate((0.5, 0.9)))
    [finding] = _gradient_reduced(ranks)
    assert finding.severity is Severity.WARNING


def _replicated(rank: int, norm: float, weights_sum: float) -> RankReport:
    return RankReport(
        rank,
        "done",
        steps=(Step(1, True, grad_norm=norm, applied_norm=norm, learning_rate=0.1),),
        model=ModelTables(roots=("DistributedDataParallel",)),
        trained=TrainedTensors(weights_sum=weights_sum),
    )


def _gradient_reduced(ranks):
    evidence = Evidence(ProofRequest("p", (), judge_precision(capability=(7, 5), requested="auto")), ranks)
    return [result for result in checks_gradient_flow.judge(evidence) if result.check == "gradient-reduced"]
