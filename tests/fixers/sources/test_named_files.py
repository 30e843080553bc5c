"""The files that shell scripts name are found in linear time."""

from __future__ import annotations

import itertools

import pytest

from fixers.sources.launched import files_named
from fixers.sources.named_files import NamedFiles

FILES = ("a.sh", "b/a.sh", "b/c/a.sh", "c/a.sh", "x-a.sh", "b/d.sh", "d.sh")


@pytest.mark.parametrize(
    "name", ["a.sh", "./a.sh", "../a.sh", "$D/a.sh", "c/a.sh", "../c/a.sh", "d.sh", "e.sh", "/d.sh"]
)
@pytest.mark.parametrize("path", ["", "run.sh", "b/run.sh", "b/c/run.sh", "e/f/run.sh"])
def test_the_files_are_those_that_are_named_from_the_two_folders(name: str, path: str) -> None:
    for known in itertools.chain.from_iterable(itertools.combinations(FILES, count) for count in range(5)):
        expected = {file for folder in (path, "") for file in files_named(name, folder, known)}
        found = NamedFiles(known)
        assert sorted(found.new(name, path) or ()) == sorted(expected)
        assert found.new(name, path) == ([] if expected else None)


def test_a_file_is_returned_for_the_first_of_the_names_that_mean_it() -> None:
    found = NamedFiles(["b/c/a.sh", "b/d.sh"])
    assert found.new("c/a.sh", "run.sh") == ["b/c/a.sh"]
    assert found.new("a.sh", "run.sh") == []
    assert found.new("d.sh", "b/run.sh") == ["b/d.sh"]
