"""Metrics compared with values that were computed by hand or are in textbooks."""

from __future__ import annotations

import jiwer
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from remote.payload.training.metrics import align, edits, mispronounced, pearson, ranks, spearman

IQ = [86, 97, 99, 100, 101, 103, 106, 110, 112, 113]
HOURS = [2, 20, 28, 27, 50, 29, 7, 17, 6, 12]


def test_pearson_agrees_with_the_published_value_for_anscombes_first_set() -> None:
    xs = [10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5]
    ys = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68]
    assert pearson(xs, ys) == pytest.approx(0.81642051634484, abs=1e-12)


def test_spearman_agrees_with_the_textbook_example_without_ties() -> None:
    assert spearman(IQ, HOURS) == pytest.approx(-29 / 165, abs=1e-12)


def test_equal_values_share_their_mean_rank() -> None:
    assert ranks([7, 3, 7, 1]) == [3.5, 2, 3.5, 1]
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486832980505138, abs=1e-12)


@pytest.mark.parametrize(("xs", "ys"), [([], []), ([1], [2]), ([1, 2, 3], [4, 4, 4])])
def test_the_correlation_of_no_values_is_none(xs: list[float], ys: list[float]) -> None:
    assert pearson(xs, ys) is None
    assert spearman(xs, ys) is None


PAIRS = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), min_size=3, max_size=40)


@given(PAIRS)
def test_pearson_and_spearman_agree_with_scipy(pairs: list[tuple[int, int]]) -> None:
    xs, ys = [float(x) for x, _ in pairs], [float(y) for _, y in pairs]
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert pearson(xs, ys) is None
        assert spearman(xs, ys) is None
    else:
        assert pearson(xs, ys) == pytest.approx(scipy.stats.pearsonr(xs, ys).statistic, abs=1e-9)
        assert spearman(xs, ys) == pytest.approx(scipy.stats.spearmanr(xs, ys).statistic, abs=1e-9)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.lists(st.sampled_from("abcd"), max_size=12))
def test_the_number_of_edits_agrees_with_jiwer(wanted: list[str], got: list[str]) -> None:
    counted = jiwer.process_words(" ".join(wanted), " ".join(got))
    assert edits(wanted, got) == counted.substitutions + counted.deletions + counted.insertions


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_an_alignment_visits_every_token_once_in_order(wanted: str, got: str) -> None:
    pairs = align(wanted, got)
    assert [i for i, _ in pairs if i is not None] == list(range(len(wanted)))
    assert [j for _, j in pairs if j is not None] == list(range(len(got)))


@pytest.mark.parametrize(
    ("expected", "said", "wrong"),
    [
        ("TH IH NG K", "S IH NG K", {0}),
        ("TH IH NG K", "TH IH NG", {3}),
        ("TH IH NG K", "TH IH NG K S", set()),
        ("TH IH NG K", "TH IH NG K", set()),
    ],
)
def test_a_phone_is_mispronounced_if_another_or_none_is_spoken(expected: str, said: str, wrong: set[int]) -> None:
    assert mispronounced(expected.split(), said.split()) == wrong
