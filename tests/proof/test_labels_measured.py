"""Which targets a loss without an ignore_index takes for values, counted by the hooks."""

from __future__ import annotations

import pytest

from remote.payload.proof.hooks.labels import measure_unignored

torch = pytest.importorskip("torch")

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
def test_minus_100_counts_where_the_loss_reads_it(target, lengths, expected):
    assert measure_unignored(target, lengths) == expected
