"""Words that every match of a pattern contains: all are correct, and they make reading a long log fast."""

from __future__ import annotations

import re

import pytest

from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.diagnose import BLOCK, diagnose_log
from pipeline.diagnosis.needles import needles_of


@pytest.mark.parametrize(
    ("regex", "needles"),
    [
        ("plain words", ("plain words",)),
        (r"a\.b\(c\)", ("a.b(c)",)),
        ("first|second", ("first", "second")),
        ("(?:first|second)", ("first", "second")),
        ("(?:first|second|x)", ()),
        ("some(thing)? else", (" else",)),
        ("some(thing){0,2}", ("some",)),
        ("(left.?pad|right)", ("left", "right")),
        ("words?", ("word",)),
        ("abcx{0,2}def", ("abc",)),
        (r"abc\d+defg", ("defg",)),
        ("abc[(|)]defg", ("defg",)),
        ("abc[]x]defg", ("defg",)),
        ("abc[^]|]defg", ("defg",)),
        ("(?=ahead)", ()),
        ("(?!ahead)behind", ("behind",)),
        ("(?<!before)after", ("after",)),
        ("(?P<name>word)", ()),
        ("(?i)words", ()),
        ("^line$", ("line",)),
        ("((outer) inner|other)", (" inner", "other")),
        ("ab", ()),
    ],
)
def test_every_match_contains_one_of_the_words(regex: str, needles: tuple[str, ...]) -> None:
    re.compile(regex)
    assert needles_of(regex) == needles


@pytest.mark.parametrize("entry", load_catalog(), ids=lambda entry: entry.id)
def test_every_entry_has_words_and_each_line_that_it_matches_contains_one(entry) -> None:
    assert entry.needles
    known = [line for sample in entry.samples for line in sample.split("\n") if entry.pattern.search(line)]
    assert all(any(needle in line for needle in entry.needles) for line in known)


@pytest.mark.parametrize("at", [0, BLOCK - 1, BLOCK, 3 * BLOCK + 1])
def test_an_error_is_found_anywhere_in_a_long_log(at: int) -> None:
    lines = [f"step {number}" for number in range(4 * BLOCK)]
    lines[at] = "ValueError: Attempting to unscale FP16 gradients."
    [found] = diagnose_log("\n".join(lines))
    assert (found.check, found.line.number) == ("fp16-unscale", at + 1)
