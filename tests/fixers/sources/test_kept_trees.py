"""A module that one step of planning parsed is not parsed again by the next."""

from __future__ import annotations

from fixers.sources.python import KeptTrees


def test_a_parsed_module_is_handed_on_once() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    assert trees.take("a.py", b"x = 1\n") is first
    assert trees.take("a.py", b"x = 1\n") is not first


def test_a_changed_or_renamed_file_is_parsed_again() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    assert trees.take("a.py", b"x = 2\n").text == b"x = 2\n"
    assert trees.take("b.py", b"x = 1\n").path == "b.py"
    assert trees.take("a.py", b"x = 1\n") is first


def test_modules_beyond_the_limit_are_not_kept() -> None:
    trees = KeptTrees(10)
    kept, other = trees.read("a.py", b"x = 1\n"), trees.read("b.py", b"y = 1\n")
    assert trees.take("b.py", b"y = 1\n") is not other
    assert trees.take("a.py", b"x = 1\n") is kept


def test_cleared_modules_are_parsed_again() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    trees.clear()
    assert trees.take("a.py", b"x = 1\n") is not first
