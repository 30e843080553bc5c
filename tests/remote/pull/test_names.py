"""Which file names from a host are accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.errors import PullRefused
from remote.pull.names import judge_name, judge_names

BAD = [
    "../x",
    "a/../../x",
    "/etc/passwd",
    "",
    ".",
    "a//b",
    "a/",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x1b[2Jb",
    "a\x9bb",
    "a\udcff",
    "a/" * 12 + "b",
    "n" * 4096,
    "n" * 241,
    "CON",
    "com1.tfevents",
    "trailing.",
    "trailing ",
    "events.tfevents.replaced-2",
]


@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_refused_with_a_reason(name):
    assert judge_name(name)


@pytest.mark.parametrize(
    "name", ["events.out.tfevents.1.host", "runs/Nov20_12-00-00_box/e", "лог/événement", "a b/{c}"]
)
def test_odd_but_harmless_names_are_accepted(name):
    assert not judge_name(name)


def test_names_that_some_file_systems_treat_as_equal_are_accepted_once():
    judged = judge_names(["a/Loss", "a/loss", "caf\u00e9", "cafe\u0301", "A/other", "b"])
    assert judged.accepted == ("a/Loss", "caf\u00e9", "b")
    assert [name for name, _ in judged.refused] == ["a/loss", "cafe\u0301", "A/other"]
    assert "a/Loss" in judged.refused[0][1]


def test_a_name_that_is_offered_twice_is_accepted_once():
    assert judge_names(["a", "a"]).accepted == ("a",)


def test_BI_53_a_million_names_are_refused_without_reading_them_all():
    seen = 0

    def names():
        nonlocal seen
        for number in range(10**6):
            seen += 1
            yield f"e{number}"

    with pytest.raises(PullRefused, match="more than 10000"):
        judge_names(names())
    assert seen < 10_010


@given(st.text(max_size=40))
def test_an_accepted_name_never_leaves_its_folder(name):
    if not judge_name(name):
        assert not name.startswith("/")
        assert ".." not in name.split("/")
        assert "\0" not in name
