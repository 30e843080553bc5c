"""Env files: values as docker and python-dotenv read them."""

import pytest

from fixers.sources.env_file import scan_env_file


def _variables(text: str) -> list[tuple[str, str | None]]:
    data = text.encode()
    found = []
    for command in scan_env_file(data).commands:
        (assignment,) = command.assignments
        value = assignment.value
        assert data[value.start : value.end].decode() == value.raw
        found.append((assignment.name, value.text))
    return found


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=b\nexport C='d e' # f\n", [("A", "b"), ("C", "d e")]),
        ('A="x"\r\nB=y\r\n', [("A", "x"), ("B", "y")]),
        ("A=$HOME/x\nB=`id`\n", [("A", None), ("B", None)]),
        ("# A=b\nnot a variable\nA=it's\nB=one two\n", [("A", "it's"), ("B", "one two")]),
        ("EMPTY=\nB=1\n", [("B", "1")]),
        ('A="open\nB=1\n', [("B", "1")]),
    ],
)
def test_an_env_file_is_read_as_variables(text: str, variables: list[tuple[str, str | None]]) -> None:
    assert _variables(text) == variables
