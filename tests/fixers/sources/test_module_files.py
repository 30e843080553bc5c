"""Which files of a project an import loads."""

from __future__ import annotations

import ast

import pytest

from fixers.sources.module_files import ModuleIndex, files_of, imported_names

PATHS = (
    *("train.py", "net.py", "src/lib/__init__.py", "src/lib/net.py", "src/lib/deep/part.py"),
    *("app/__init__.py", "app/net.py", "app/zoo/__init__.py", "app/zoo/lion.py", "tools/zoo/lion.py"),
    *("kit/models/voice.py", "voice/__init__.py"),
)


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("import a, b.c as d", ["a", "b.c"]),
        ("from a import b, c", ["a", "a.b", "a.c"]),
        ("from . import b", [".", ".b"]),
        ("from ..a.b import c", ["..a.b", "..a.b.c"]),
        ("a = b", []),
    ],
)
def test_an_import_may_load_the_module_and_each_imported_name(statement: str, names: list[str]) -> None:
    assert list(imported_names(ast.parse(statement).body[0])) == names


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("net", "", ["net.py"]),
        ("net", "app", ["app/net.py", "net.py"]),
        ("lib.net", "app", ["src/lib/net.py"]),
        ("lib", "", ["src/lib/__init__.py"]),
        ("lib.deep", "", []),
        ("torch.nn", "app", []),
        (".net", "app", ["app/net.py"]),
        ("..net", "app/zoo", ["app/net.py"]),
        ("..zoo.lion", "app/zoo", ["app/zoo/lion.py"]),
        (".", "app/zoo", ["app/zoo/__init__.py"]),
        ("..", "app/zoo", ["app/__init__.py"]),
        (".net", "", ["net.py"]),
        ("....net", "app/zoo", ["net.py"]),
    ],
)
def test_a_module_is_searched_in_its_folder_and_the_source_roots(name: str, folder: str, files: list[str]) -> None:
    assert list(files_of(name, folder, PATHS)) == files


@pytest.mark.parametrize(("name", "files"), [("net", ["app/net.py"]), (".net", ["src/lib/net.py"]), ("lib", [])])
def test_only_absolute_names_are_searched_in_given_roots(name: str, files: list[str]) -> None:
    assert list(files_of(name, "src/lib", PATHS, ("app",))) == files


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("zoo.lion", "app", ("app/zoo/lion.py", "app/zoo/__init__.py", "app/__init__.py")),
        ("zoo.lion", "tools", ("tools/zoo/lion.py",)),
        ("zoo.lion", "", ("app/zoo/lion.py", "app/zoo/__init__.py", "app/__init__.py", "tools/zoo/lion.py")),
        ("lib", "jobs", ("src/lib/__init__.py",)),
        ("voice", "jobs", ("voice/__init__.py",)),
        ("voice", "kit/models", ("kit/models/voice.py",)),
        ("kit.models.voice", "jobs", ("kit/models/voice.py",)),
        ("zoo", "tools", ("app/zoo/__init__.py",)),
        ("net", "", ("net.py",)),
        ("net", "src", ("src/lib/net.py", "src/lib/__init__.py")),
        ("deep.part", "app", ("src/lib/deep/part.py", "src/lib/__init__.py")),
        ("tools.net", "app", ()),
        (".net", "app", ("app/net.py",)),
    ],
)
def test_an_index_finds_the_nearest_files_and_their_packages(name: str, folder: str, files: tuple[str, ...]) -> None:
    assert ModuleIndex(PATHS).files_of(name, folder) == files


APPS = (
    "a/kit/__init__.py",
    "a/kit/net.py",
    "a/run.py",
    "b/kit/__init__.py",
    "b/kit/deep.py",
    "c/loose/part.py",
    "c/run.py",
)


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("kit.net", "a", ("a/kit/net.py", "a/kit/__init__.py")),
        ("kit.deep", "a", ()),
        ("kit.deep", "a/kit", ()),
        ("kit.deep", "c", ("b/kit/deep.py", "b/kit/__init__.py")),
        ("loose.part", "a", ("c/loose/part.py",)),
        ("kit.more.net", "a", ()),
    ],
)
def test_a_nearer_package_hides_a_module_of_another_project(name: str, folder: str, files: tuple[str, ...]) -> None:
    assert ModuleIndex(APPS).files_of(name, folder) == files


@pytest.mark.parametrize(("name", "folder"), [("kit.net", ""), ("kit.net", "jobs"), ("kit.net", "kit"), ("net", "kit")])
def test_a_package_does_not_hide_its_own_modules(name: str, folder: str) -> None:
    assert ModuleIndex(("kit/__init__.py", "kit/net.py", "run.py")).files_of(name, folder)[:1] == ("kit/net.py",)


def test_a_nearer_folder_without_init_hides_no_module() -> None:
    paths = tuple(each for each in APPS if each != "a/kit/__init__.py")
    assert ModuleIndex(paths).files_of("kit.deep", "a") == ("b/kit/deep.py", "b/kit/__init__.py")
