"""TOML of foreign projects is parsed within limits."""

from __future__ import annotations

import tomllib

import pytest

from fixers.sources.toml_text import parse_toml


@pytest.mark.parametrize(
    "text",
    [
        "a." * 35_000 + "b = 1\n",
        "[" + "a." * 35_000 + "b]\n",
        "x = {" + " . ".join(['"a"'] * 100) + " = 1}\n",
        "x = 1\n" + "'a'." * 100 + "b = 1\n",
        '"\\"".' * 100 + "b = 1\n",
        "x = '" + "y" * 2**20 + "'\n",
        'x = {y = """a"b""", ' + "a." * 100 + "b = 1}\n",
        "x = '''\n'\n'''\n" + "a." * 100 + "b = 1\n",
        '# it\'s """\n' + "a." * 100 + "b = 1\n",
    ],
    ids=["key", "table", "inline", "quoted", "escaped", "size", "after quotes", "after lines", "after a comment"],
)
def test_SE_a_document_that_needs_much_memory_is_an_error(text: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match="more than"):
        parse_toml(text)


@pytest.mark.parametrize(
    "text", ["a" * 2**19 + " = 1\n", "a.b.c = 1.5\n", "x = '" + "." * 500 + "'\n", '"' * 2 + " = 1\n", "# " + "a." * 99]
)
def test_other_documents_are_parsed_as_by_tomllib(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


def test_the_line_of_a_long_key_is_named() -> None:
    with pytest.raises(tomllib.TOMLDecodeError, match="at line 3"):
        parse_toml("x = 1\n\n" + "a." * 65 + "b = 1\n")


def test_SE_text_with_many_quotes_is_read_in_linear_time() -> None:
    for quotes in ('\\"' * 400_000, "'" * 900_000, '"" ' * 300_000):
        for start in ("", '"', '"""'):
            with pytest.raises(tomllib.TOMLDecodeError):
                parse_toml(f"a = {start}{quotes}")
