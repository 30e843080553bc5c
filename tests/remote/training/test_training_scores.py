"""Scores of answers: definitions by hand, libraries as oracles, and bootstrap intervals."""

from __future__ import annotations

import jiwer
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from remote.payload.training.prompts import Transcript
from remote.payload.training.recordings import Recording
from remote.payload.training.resampling import draw_counts, interval, pearson_of, ratio_of, spearman_of
from remote.payload.training.scores import Answer, Metrics, count_row, judge_answers, judge_counts
from remote.protocol.evaluation import ASPECTS, metric_names

NO_ANSWER = "I cannot score this."
SCORES = st.lists(st.tuples(st.integers(0, 10), st.none() | st.integers(0, 10)), min_size=4, max_size=30)
PHONES = st.lists(st.sampled_from(["TH", "IH", "NG", "K", "S"]), min_size=1, max_size=8)


def scored(number: int, right: int, given: int | None, speaker: str = "") -> Answer:
    recording = Recording(str(number), bytes, scores=dict.fromkeys(ASPECTS, float(right)), speaker=speaker)
    words = ", ".join(f"{aspect} {given}" for aspect in ASPECTS)
    return Answer("apa", recording, NO_ANSWER if given is None else words)


def transcribed(number: int, text: str, expected: list[str], said: list[str], answer: str) -> Answer:
    return Answer("mdd", Recording(str(number), bytes, text, tuple(expected), tuple(said)), answer)


def values(metrics: Metrics) -> dict[str, float | None]:
    return {name: one.value for name, one in metrics.items()}


def test_the_names_of_a_task_s_metrics_are_those_that_are_computed() -> None:
    answers = [
        scored(1, 5, 5),
        transcribed(2, "think", ["TH"], ["S"], "text: think\nphones: S"),
        Answer("captions", Recording("3", bytes), "a dog", "a dog"),
    ]
    judged = judge_answers(answers)
    for task in ("apa", "mdd", "captions"):
        assert set(metric_names(task)) == {name for name in judged if name.startswith(f"{task}/")}


@given(SCORES)
def test_correlations_over_answered_and_over_all_agree_with_scipy(rows: list[tuple[int, int | None]]) -> None:
    judged = values(judge_answers([scored(n, *row) for n, row in enumerate(rows)]))
    answered = [(x, y) for x, y in rows if y is not None]
    assert judged["apa/answered"] == len(answered) / len(rows)
    for suffix, pairs in (("", answered), ("_all", [(x, y or 0) for x, y in rows])):
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
        if len(set(xs)) < 2 or len(set(ys)) < 2:
            assert judged[f"apa/total/pearson{suffix}"] is None
            continue
        oracle = scipy.stats.pearsonr(xs, ys).statistic, scipy.stats.spearmanr(xs, ys).statistic
        got = judged[f"apa/total/pearson{suffix}"], judged[f"apa/total/spearman{suffix}"]
        assert got == pytest.approx(oracle, abs=1e-9)


@given(st.lists(st.tuples(PHONES, PHONES), min_size=1, max_size=6))
def test_word_and_phone_error_rates_agree_with_jiwer(rows: list[tuple[list[str], list[str]]]) -> None:
    answers = [
        transcribed(n, " ".join(said), said, said, f"text: {' '.join(given).lower()}\nphones: {' '.join(given)}")
        for n, (said, given) in enumerate(rows)
    ]
    judged = values(judge_answers(answers))
    oracle = jiwer.wer([" ".join(said) for said, _ in rows], [" ".join(given) for _, given in rows])
    assert judged["mdd/wer"] == pytest.approx(oracle, abs=1e-9)
    assert judged["mdd/per"] == pytest.approx(oracle, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "answer", "rate"),
    [
        ("the cat sat on the mat", "the cat sat mat", 2 / 6),
        ("the cat sat", "the cat sat", 0.0),
        ("the cat", "", 1.0),
        ("hello", "well hello there", 2.0),
        ("A b c", "a x c", 1 / 3),
    ],
)
def test_the_word_error_rate_counts_all_edits(text: str, answer: str, rate: float) -> None:
    row = count_row(Recording("a", bytes, text), Transcript(tuple(answer.split()), ()))
    judged = judge_counts([row], draw_counts(["a"], 0, 0))
    assert judged["wer"].value == pytest.approx(rate)
    assert judged["per"].value is None


def test_an_error_rate_is_over_all_tokens_and_not_a_mean_of_rates() -> None:
    rows = [
        transcribed(1, "a", ["K"], ["K"], "text: x\nphones: K"),
        transcribed(2, "a b c", ["S"], ["S"], "text: a b c\nphones: S"),
    ]
    assert values(judge_answers(rows))["mdd/wer"] == 0.25


def test_detection_counts_hits_false_alarms_and_misses() -> None:
    """TH was said as S and found; K was said as G and missed; IH was right and flagged."""
    expected, said = ["TH", "IH", "NG", "K"], ["S", "IH", "NG", "G"]
    judged = values(judge_answers([transcribed(1, "think", expected, said, "text: think\nphones: S IY NG K")]))
    assert [judged[f"mdd/{name}"] for name in ("precision", "recall", "f1")] == [0.5, 0.5, 0.5]
    flawless = values(judge_answers([transcribed(1, "think", said, said, f"text: think\nphones: {' '.join(said)}")]))
    assert flawless["mdd/f1"] is None


def test_an_answer_in_a_wrong_form_counts_as_empty_and_is_left_out_of_the_answered_metrics() -> None:
    right, none = "text: think\nphones: K", NO_ANSWER
    judged = values(judge_answers([transcribed(n, "think", ["K"], ["K"], one) for n, one in enumerate((right, none))]))
    assert (judged["mdd/answered"], judged["mdd/wer"], judged["mdd/wer_answered"]) == (0.5, 0.5, 0.0)


@settings(deadline=None)
@given(SCORES, st.integers(0, 9))
def test_the_metrics_of_a_resample_equal_those_of_a_set_with_its_rows(
    rows: list[tuple[int, int | None]], seed: int
) -> None:
    xs, ys = np.array([float(x) for x, _ in rows]), np.array([float(y or 0) for _, y in rows])
    counts = draw_counts([str(n) for n in range(len(rows))], 3, seed)
    for resample, pearson, spearman, ratio in zip(
        counts.astype(int),
        pearson_of(xs, ys, counts),
        spearman_of(xs, ys, counts),
        ratio_of(xs, ys, counts),
        strict=True,
    ):
        x, y = np.repeat(xs, resample), np.repeat(ys, resample)
        assert len(x) == len(rows)
        if len(set(x)) < 2 or len(set(y)) < 2:
            assert np.isnan(pearson) and np.isnan(spearman)
        else:
            assert pearson == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-9)
            assert spearman == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-9)
        assert np.isnan(ratio) if y.sum() == 0 else ratio == pytest.approx(x.sum() / y.sum())


def test_the_rows_of_a_speaker_are_drawn_together() -> None:
    counts = draw_counts(["ann", "bob", "ann", "eve"], 50, 1)
    assert (counts[:, 0] == counts[:, 2]).all()
    assert counts[:, 1:].sum(axis=1) == pytest.approx(3)
    assert (counts[:, 0] != counts[:, 1]).any()


def test_an_interval_agrees_with_scipys_bootstrap() -> None:
    """Both draw at random: 4,000 resamples of 80 rows agree to about 0.01."""
    random = np.random.default_rng(7)
    right = random.integers(0, 11, 80)
    given = np.clip(right + random.integers(-3, 4, 80), 0, 10)
    answers = [scored(n, int(x), int(y)) for n, (x, y) in enumerate(zip(right, given, strict=True))]
    found = judge_answers(answers, resamples=4000, seed=1)["apa/total/pearson"]
    oracle = scipy.stats.bootstrap(
        (right, given), lambda x, y: scipy.stats.pearsonr(x, y).statistic,
        paired=True, vectorized=False, n_resamples=4000, method="percentile", rng=2,
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=0.01)
    again = judge_answers(answers, resamples=4000, seed=1)["apa/total/pearson"]
    assert (again.low, again.high) == (found.low, found.high)


def test_a_metric_that_is_mostly_undefined_has_no_interval() -> None:
    assert interval(np.array([np.nan, np.nan, 0.5])) == (None, None)
    assert interval(np.array([])) == (None, None)
    one = judge_answers([scored(0, 3, 4), scored(1, 3, 5)], resamples=20)["apa/total/pearson"]
    assert (one.value, one.low, one.high) == (None, None, None)
