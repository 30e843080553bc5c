"""Targets that a loss without ignore_index takes for values, counted by the hooks."""

from __future__ import annotations

import pytest
import torch

from remote.payload.proof.checks_labels import judge
from remote.payload.proof.evidence import Evidence
from remote.payload.proof.hooks.batch_report import BatchTables, ValueTargets
from remote.payload.proof.hooks.batches import MODEL
from remote.payload.proof.hooks.labels import count_values
from remote.payload.proof.hooks.report import RankReport
from remote.policy.precision import judge_precision
from remote.protocol.proof import NotChecked, ProofRequest

PADDED = torch.tensor([[1, 2, -100], [3, -100, -100]])


@pytest.mark.parametrize(
    ("target", "lengths", "expected"),
    [
        (PADDED.float(), None, (6, 3)),
        (PADDED, None, None),
        (PADDED, torch.tensor([2, 1]), (3, 0)),
        (PADDED, [3, 2], (5, 2)),
        (torch.tensor([1, 2, 3]), torch.tensor([2, 1]), (3, 0)),
        (torch.empty(0), None, None),
        (None, None, None),
    ],
    ids=["values", "class ids", "beyond the lengths", "within the lengths", "concatenated", "empty", "no tensor"],
)
def test_targets_of_minus_100_are_counted_if_the_loss_reads_them(target, lengths, expected):
    assert count_values(target, lengths) == expected


def row(loss: str, ignored: int) -> ValueTargets:
    return ValueTargets(loss, batches=1, total=10, ignored=ignored)


@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        ([row("mse_loss", 3)], "warning"),
        ([row("mse_loss", 0)], "info"),
        ([row(MODEL, 3)], "warning"),
        ([row(MODEL, 3), row("mse_loss", 0)], "info"),
        ([], "unseen"),
    ],
    ids=["learnt", "none", "a loss written by hand", "masked by the model", "no such loss"],
)
def test_labels_of_minus_100_that_the_model_masks_itself_are_not_reported(rows, severity):
    rank = RankReport(0, "done", batches=BatchTables(values=tuple(rows)))
    evidence = Evidence(ProofRequest("p", (), judge_precision(capability=(7, 5), requested="auto")), (rank,))
    (found,) = (one for one in judge(evidence) if one.check == "labels-ignored")
    assert ("unseen" if isinstance(found, NotChecked) else found.severity.value) == severity
