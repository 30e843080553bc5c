"""Words are found in files as if each were searched by itself."""

from __future__ import annotations

import re

import pytest

from fixers.code.label_padding import _may_pad
from fixers.sources.lines import (
    CHUNK,
    LONGEST_WORD,
    MAX_WORDS,
    LinePattern,
    _vocabulary,
    holds,
    holds_any,
    line_starts,
    lines_with,
)
from fixers.sources.python_text import LINE_END


@pytest.mark.parametrize(
    ("source", "word", "held"),
    [
        (b"args.no_cuda", b"no_cuda", True),
        (b"args.no_cuda", b"no-cuda", False),
        (b"--no-cuda", b"no-cuda", True),
        (b"--no-cuda", b"no_cuda", False),
        (b"--no-cuda and no_cuda", b"no_cuda", True),
        (b"--push-to_hub-token", b"push_to_hub_token", False),
        (b"label", b"label", True),
        (b"", b"label", False),
        (b"loss.backward()", b".backward(", True),
        (b"loss. backward ()", b".backward(", False),
        (b"backward(loss.x)", b".backward(", False),
        (b"rotate_half", b"half", True),
        (b"caf\xc3\xa9 label\xe9", b"label", True),
        (b"x " * 2**20 + b"label", b"label", True),
        (b"x " * 2**20 + b"label", b"labels", False),
        (b"x" * 3 * 2**20 + b" label", b"label", True),
        (b" " * (CHUNK - 2) + b"label" + b" " * CHUNK, b"label", True),
        (b" " * (CHUNK + LONGEST_WORD - 2) + b"label", b"label", True),
        (b" ".join(b"%x" % number for number in range(MAX_WORDS + 1)) + b" a label", b"label", True),
        (b" ".join(b"%x" % number for number in range(MAX_WORDS + 1)) + b" a label", b"labels", False),
    ],
)
def test_a_word_is_found_exactly_where_the_text_contains_it(source: bytes, word: bytes, held: bool) -> None:
    assert holds(source, word) is held
    assert holds_any(source, (b"absent", word)) is held


@pytest.mark.parametrize("padding", [b"x" * 2**20, b"x " * 2**19, b"# " * 2**19])
def test_a_large_file_is_not_searched_again_for_each_word(padding: bytes) -> None:
    """Each word is searched for in the distinct words, which are few."""
    assert len(_vocabulary(padding * 20 + b" label").text) < 2**22


def test_a_pattern_is_found_on_the_first_line_that_matches() -> None:
    searched = LinePattern(re.compile(rb"^[ \t]*if\b.*\bhalf\b", re.MULTILINE), (b"half",))
    text = b"a = half\nif a:\n  half\nif half:\n    if half:\n"
    assert searched.find(text) == text.index(b"if half")
    assert searched.is_in(text)
    assert not searched.is_in(b"a = half\nif a:\n  half\n")


def test_only_lines_with_a_word_are_returned_in_file_order() -> None:
    assert lines_with(b"b = 1\nx\na = b\n\nb", (b"a", b"b")) == b"b = 1\na = b\nb"


@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"\n\r\n\ra", b"a\x0cb\x0b\x1c\xc2\x85\r", b"a\n\rb\r\r\n"])
def test_only_line_feeds_and_carriage_returns_end_a_line(text: bytes) -> None:
    assert line_starts(text) == [0, *(end.end() for end in LINE_END.finditer(text))]


@pytest.mark.parametrize(
    "source",
    [
        b"labels = pad_sequence(rows)",
        b"F.pad(\n    batch['Labels'], (0, 1))",
        b"batch['labels'] = torch.full((2, 3), 0)",
        b"Labels = torch.zeros(\n2)",
        b"labels = (labels +\n [0] * 3)",
        b"row = [0] * n + labels",
        b"row = n *\n [0] + Label",
    ],
)
def test_every_form_of_padded_labels_is_searched(source: bytes) -> None:
    assert _may_pad(source)


@pytest.mark.parametrize(
    "source", [b"labels = a + b\nx = [0]", b"x = torch.zeros(2)\nlabels = 1", b"x = [0] * 2\nlabel"]
)
def test_a_label_beside_other_padding_is_not_searched(source: bytes) -> None:
    assert not _may_pad(source)
