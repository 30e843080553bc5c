"""Find every reader of precision settings in a Python file, and the classes that declare precision switches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from fixers.sources.lines import lines_with
from fixers.sources.python import PythonSource
from fixers.sources.readers.branches import find_assert, find_conditional, find_if_chain, find_match
from fixers.sources.readers.displays import (
    Found,
    find_annotation,
    find_choices,
    find_enumeration,
    find_registration,
    find_table,
    find_torch_lookup,
)
from fixers.sources.readers.flags import find_comparison
from fixers.sources.readers.reader import Fields

QUOTED = re.compile(rb"[\"'](?:torch\.)?[Bb](?:[Ff]|[Ff][Ll][Oo][Aa][Tt])16(?:[-_](?:mixed|true))?[\"']")
ROW = re.compile(rb"\bb(?:f|float)16[ ]*=[ ]*(?:\w+\.)*bfloat16\b")
TESTED = re.compile(rb"^[ \t]*(?:assert|(?:el)?if)\b[^\n]*\bbfloat16\b", re.MULTILINE)
DECLARED = re.compile(rb"^[ \t]+\w*(?:bf16|bfloat16)\w*[ \t]*:", re.MULTILINE)
WORDS = (b"bf16", b"bfloat16", b"BF16", b"BFLOAT16")
SWITCH = re.compile(r"\w*(?:bf16|bfloat16|fp16|float16|half)\w*")
LIBRARIES = ("transformers.", "trl.", "accelerate.", "peft.", "optimum.")


def may_contain_readers(data: bytes) -> bool:
    """Return True if the file may contain a reader, by a text search that excludes most files."""
    lines = lines_with(data, WORDS)
    return bool(lines) and any(pattern.search(lines) is not None for pattern in (QUOTED, DECLARED, TESTED, ROW))


def is_test(path: str) -> bool:
    """Return True for the path of a test file, whose asserts and tables do not read settings."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    return (
        name.startswith(("test_", "conftest"))
        or name.endswith("_test.py")
        or any(part == "tests" or part.startswith(("test_", "tests_")) for part in parts[:-1])
    )


def find_readers(source: PythonSource) -> tuple[Found, ...]:
    """Return the readers of the file, in no particular order."""
    return source.remember("readers", lambda: tuple(found for found in _all_readers(source) if found.reader.option))


def _all_readers(source: PythonSource) -> Iterator[Found]:
    names = source.names
    for call in names.of_type(ast.Call):
        yield from find_table(source, call)
        yield from find_choices(source, call)
        yield from find_torch_lookup(source, call)
    if b"Literal" in source.text or b"choices" in source.text:
        for assigned in names.of_type(ast.AnnAssign):
            yield from find_annotation(source, assigned)
        for argument in names.of_type(ast.arg):
            yield from find_annotation(source, argument)
    for table in names.of_type(ast.Dict):
        yield from find_table(source, table)
    for branch in names.of_type(ast.If):
        yield from find_if_chain(source, branch)
    for choice in names.of_type(ast.IfExp):
        yield from find_conditional(source, choice)
    for match in names.of_type(ast.Match):
        yield from find_match(source, match)
    for test in names.of_type(ast.Assert):
        yield from find_assert(source, test)
    for comparison in names.of_type(ast.Compare):
        yield from find_comparison(source, comparison)
    for definition in names.of_type(ast.ClassDef):
        yield from find_enumeration(source, definition)
        yield from find_registration(source, definition)
    for function in names.of_type(ast.FunctionDef):
        yield from find_registration(source, function)


def find_fields(source: PythonSource) -> tuple[Fields, ...]:
    """Return the classes with annotated fields for bfloat16 or float16 switches."""
    return tuple(each for node in source.names.of_type(ast.ClassDef) if (each := _fields_of(source, node)) is not None)


def _fields_of(source: PythonSource, node: ast.ClassDef) -> Fields | None:
    declared = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    lines = {name: each.lineno for each in declared if SWITCH.fullmatch(name := source.segment(each.target))}
    line = next((lines[name] for name in lines if "bf" in name), node.lineno)
    bases = tuple(source.segment(base).rpartition(".")[2] for base in node.bases)
    declares_both = any((source.names.meaning(base) or "").startswith(LIBRARIES) for base in node.bases)
    return Fields(source.path, line, node.name, tuple(lines), bases, declares_both) if lines or declares_both else None
