"""Secrets are masked in every kind of message, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from pipeline.messages.masked import mask_tokens, masked
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


@pytest.mark.parametrize(
    "shown", ['ab/cd+e f="ä', "ab/cd%2Be%20f%3D%22%C3%A4", "ab%2Fcd%2Be+f%3D%22%C3%A4", "ab%2fcd%2be%20f%3d%22%c3%a4"]
)
def test_a_value_is_masked_where_it_is_encoded_in_a_url_or_escaped(shown: str) -> None:
    secret = 'ab/cd+e f="ä'
    texts = (f"key={shown}&", json.dumps({"key": secret}), repr([secret, "'"]), json.dumps(secret, ensure_ascii=False))
    assert [mask(text, [secret]) for text in texts[:3]] == ["key=***&", '{"key": "***"}', "['***', \"'\"]"]


@pytest.mark.parametrize(
    ("text", "masks"),
    [
        ("token_hf_abcdefghijklmnopq", "token_***"),
        ("ghr_abcdefghijklmnopqr AIzaSyabcdefghijklmnop", "*** ***"),
        ("https://me:correct-horse@index.example/simple", "https://***@index.example/simple"),
        ("https://index.example/a:b@c whf_abcdefghijklmnopq", "https://index.example/a:b@c whf_abcdefghijklmnopq"),
    ],
)
def test_tokens_and_passwords_in_urls_are_masked(text: str, masks: str) -> None:
    assert mask_tokens(text) == masks


def test_a_value_with_a_line_break_at_its_end_is_masked_without_it() -> None:
    assert mask("key=abcdef12345&", ["abcdef12345\n"]) == "key=***&"


def test_a_short_value_is_not_masked() -> None:
    assert mask("step 1 of 10", ["1", ""]) == "step 1 of 10"
