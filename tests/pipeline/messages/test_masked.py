"""Secrets are masked in every kind of message, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pipeline.messages.masked import masked
from remote.protocol import hidden
from remote.protocol.findings import Finding, Severity
from remote.protocol.hidden import mask
from remote.protocol.proof import DtypeRow, NotChecked, ProofReport, ProvedStep


def test_every_text_of_a_value_is_masked_and_the_rest_stays() -> None:
    report = ProofReport(
        (Finding("x", Severity.ERROR, "token hunter2hunter2 refused", "at hunter2hunter2"),),
        (NotChecked("y", "because of hunter2hunter2"),),
        (DtypeRow("trainable", "float32", 1, 2, 3, ("hunter2hunter2.weight",)),),
        (ProvedStep(True, 0.5, float("inf")),),
        output_tail="hunter2hunter2\n",
    )
    shown = masked(report, ["hunter2hunter2"])
    assert "hunter2" not in str(shown)
    assert (shown.findings[0].message, shown.output_tail) == ("token *** refused", "***\n")
    assert shown.steps == report.steps
    assert masked(report, []) is report


@dataclass(frozen=True)
class Table:
    severity: Severity
    rows: dict[str, list[object]]


def test_keys_and_hidden_values_are_masked_and_enumerations_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_values", {"hunter2hunter2", "warning"})
    shown = masked(Table(Severity.WARNING, {"hunter2hunter2": ["a warning", 1]}))
    assert shown == Table(Severity.WARNING, {"***": ["a ***", 1]})


def test_a_longer_secret_is_masked_before_one_that_is_its_prefix() -> None:
    assert mask("abcdefgh abcdef", ["abcdef", "abcdefgh"]) == "*** ***"


def test_a_short_value_is_not_masked() -> None:
    assert mask("step 1 of 10", ["1", ""]) == "step 1 of 10"
