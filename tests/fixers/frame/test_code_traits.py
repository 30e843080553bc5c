"""A file may contain any of the words for which the fixers search, in any place and without the code around them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fixers
from fixers.frame.code_traits import traits_of, traits_of_text

SHORTEST, LONGEST = 4, 40


def words() -> list[bytes]:
    """Return the short texts of the fixers' own code, among them all words for which they search."""
    found: set[bytes] = set()
    for path in Path(fixers.__file__).parent.rglob("*.py"):
        values = (node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant))
        found |= {
            value.encode() if isinstance(value, str) else value for value in values if isinstance(value, str | bytes)
        }
    return sorted(word for word in found if SHORTEST <= len(word) <= LONGEST)


@pytest.mark.parametrize(
    "shape", [b"%s\n", b"x = %s\n", b"# %s\nx = 1\n", b"    def f(self):\n        %s\n", b"%s1)\n"]
)
def test_a_file_of_one_word_has_traits(shape: bytes) -> None:
    assert len(words()) > 1000
    for word in words():
        source = shape.replace(b"%s", word)
        traits_of("a.py", source)
        traits_of_text("a.sh", source)


def test_the_last_definition_of_a_file_reaches_to_its_end() -> None:
    source = b"from munch import Munch\n\n\ndef nets(a):\n    return Munch(a=a)\n\n\ndef other(a):\n    return a\n"
    assert traits_of("a.py", source).optimizer_containers == ("nets",)
    assert traits_of("a.py", source.replace(b"return a\n", b"return Munch()\n")).optimizer_containers == (
        "nets",
        "other",
    )
