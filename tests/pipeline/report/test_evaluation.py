"""The result of an evaluation as a table, beside the published rows, and on the report's page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.report.evaluation import (
    describe,
    evaluation_as_json,
    explain_missing,
    format_estimate,
    headings,
    label,
    table,
)
from pipeline.report.model import RunReport, Verdict
from pipeline.report.page import render_report
from pipeline.report.published import DATA, MODEL, NAMES, PUBLISHED, differences
from remote.protocol.evaluation import Estimate, EvaluationResult, ModelScores

METRICS = {
    "mdd/wer": Estimate(0.2, 0.15, 0.25),
    "mdd/wer_answered": Estimate(0.1),
    "apa/fluency/spearman": Estimate(None),
    "apa/fluency/pearson": Estimate(0.7),
    "apa/fluency/pearson_all": Estimate(0.6),
    "apa/answered": Estimate(0.5),
}
RESULT = EvaluationResult(
    scores=(ModelScores("adapter", METRICS), ModelScores("base", {"mdd/wer": Estimate(0.9)})),
    recordings=2500,
    answers=10000,
    data=DATA,
    split="test",
    model=MODEL,
    rank=64,
    step=120,
    precision="fp16-mixed",
    resamples=1000,
)


def test_the_table_has_a_row_for_each_metric_and_a_column_for_each_model() -> None:
    assert headings(RESULT) == ("", "adapter", "base model", "paper: LoRA, 3 epochs", "paper: no tuning")
    assert list(table(RESULT)) == [
        ("APA, well-formed answers", "0.500", "-", "-", "-"),
        ("fluency, Pearson", "0.700", "-", "0.727", "-0.017"),
        ("fluency, Spearman", "-", "-", "-", "-"),
        ("MDD, word error rate", "0.200 [0.15, 0.25]", "0.900", "0.140", "0.970"),
    ]
    assert "MDD, word error rate over well-formed answers" in [row[0] for row in table(RESULT, variants=True)]


def test_a_missing_value_is_explained() -> None:
    lines = [line.partition(" means")[0] for line in explain_missing(RESULT)]
    assert lines == ["a dash", "a dash in a column of the paper"]
    complete = replace(RESULT, scores=(ModelScores("adapter", {"mdd/wer": Estimate(0.2)}),))
    assert not list(explain_missing(complete))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("apa/total/pearson_all", "total, Pearson over all"),
        ("mdd/f1", "MDD, F1"),
        ("mdd/f1_answered", "MDD, F1 over well-formed answers"),
    ],
)
def test_metrics_have_readable_labels(name: str, words: str) -> None:
    assert label(name) == words


def test_a_value_without_an_interval_is_shown_alone() -> None:
    assert [format_estimate(one) for one in (Estimate(0.5), Estimate(None), Estimate(0.5, 0.25, 0.75))] == [
        "0.500",
        "-",
        "0.500 [0.25, 0.75]",
    ]


def test_what_was_evaluated_is_one_line() -> None:
    assert describe(RESULT) == (
        f"2500 recordings of {DATA} (test), 10000 answers, greedy decoding in fp16-mixed, "
        "95 % intervals from 1000 resamples"
    )
    assert "intervals" not in describe(replace(RESULT, resamples=0))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ["prompts", "rank: 64; the paper does not state the rank"]),
        ({"rank": None}, ["prompts"]),
        ({"model": "tiny/phi4-multimodal"}, ["prompts", "rank", "model: tiny/phi4-multimodal, not"]),
        ({"data": "tiny-speech"}, ["prompts", "rank", "data: tiny-speech, not"]),
        ({"recordings": 100}, ["prompts", "rank", "data: 100 recordings of split test, not the 2500"]),
    ],
)
def test_differences_from_the_paper_are_listed(changed: dict[str, object], words: list[str]) -> None:
    found = differences(replace(RESULT, **changed))
    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_every_published_row_has_a_value_for_each_metric() -> None:
    assert {len(row.values) for row in PUBLISHED} == {len(NAMES)}
    assert PUBLISHED[3].metrics["apa/total/pearson"] == 0.675
    encoded = evaluation_as_json(RESULT)
    assert [row["name"] for row in encoded["published"]["rows"]] == [row.name for row in PUBLISHED]
    assert encoded["scores"][0]["metrics"]["mdd/wer"] == {"value": 0.2, "low": 0.15, "high": 0.25}


def test_the_page_shows_every_metric_and_marks_the_published_rows() -> None:
    report = RunReport("tiny-1", "tiny", "titan", Verdict.EVALUATED, evaluation=replace(RESULT, data="<script>"))
    page = render_report(report)
    for words in ("Evaluation at step 120", "fluency, Pearson over all", "LoRA, 4 epochs †", "rank: 64", "evaluated"):
        assert words in page
    assert "<script>" not in page


@pytest.mark.parametrize("name", ["wer", "", "/", "mdd/", "a/b/c/d", "wer_all"])
def test_a_metric_of_any_name_has_a_row(name: str) -> None:
    result = replace(RESULT, scores=(ModelScores("adapter", {name: Estimate(0.5)}),))
    assert [row[1] for row in table(result, variants=True)] == ["0.500"]
    assert "0.500" in render_report(RunReport("r", "c", "titan", Verdict.EVALUATED, evaluation=result))


def test_an_absurd_score_does_not_widen_the_table() -> None:
    assert format_estimate(Estimate(1.7e308, -1.7e308, 5.0)) == "1.7e+308 [-1.7e+308, 5.00]"
