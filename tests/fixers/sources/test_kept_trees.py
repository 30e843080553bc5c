"""A module that one step of planning parsed is not parsed again by the next."""

from __future__ import annotations

from fixers.sources.python import KeptTrees


def test_a_parsed_module_is_handed_on_once() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    assert trees.take("a.py", b"x = 1\n") is first
    assert trees.take("a.py", b"x = 1\n") is not first


def test_a_module_that_is_read_or_parsed_again_is_the_same_tree() -> None:
    trees = KeptTrees(100)
    assert trees.read("a.py", b"x = 1\n") is trees.read("a.py", b"x = 1\n")
    assert trees.parse(b"x = 1\n") is trees.parse(b"x = 1\n")
    assert trees.parse(b"x = 1\n") is not trees.parse(b"x = 2\n")


def test_a_changed_or_renamed_file_is_parsed_again() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    assert trees.take("a.py", b"x = 2\n").text == b"x = 2\n"
    assert trees.take("b.py", b"x = 1\n").path == "b.py"
    assert trees.take("a.py", b"x = 1\n") is first


def test_modules_beyond_the_limit_are_not_kept() -> None:
    trees = KeptTrees(14)
    kept, other = trees.read("a.py", b"x = 1\n"), trees.read("b.py", b"y = 1\n")
    assert trees.take("b.py", b"y = 1\n") is not other
    assert trees.take("a.py", b"x = 1\n") is kept


def test_trees_of_files_and_plain_modules_share_the_limit() -> None:
    trees = KeptTrees(14)
    kept, other = trees.read("a.py", b"x = 1\n"), trees.parse(b"y = 1\n")
    assert trees.parse(b"y = 1\n") is not other
    assert trees.read("a.py", b"x = 1\n") is kept


def test_cleared_modules_are_parsed_again() -> None:
    trees = KeptTrees(100)
    first = trees.read("a.py", b"x = 1\n")
    trees.clear()
    assert trees.take("a.py", b"x = 1\n") is not first


def test_SE_dense_code_whose_tree_is_large_counts_more_than_its_size() -> None:
    trees = KeptTrees(100)
    dense, written = b"a;" * 20, b"value = 12345\n" * 3
    assert trees.parse(dense) is not trees.parse(dense)
    assert trees.parse(written) is trees.parse(written)
