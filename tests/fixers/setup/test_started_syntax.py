"""Syntax errors in the files that a command loads whenever it starts."""

import tracemalloc

import pytest

from fixers.frame.findings import error
from fixers.setup.started_syntax import judge_syntax, without_known
from fixers.sources.syntax import LARGEST_BYTES
from remote.protocol.findings import Severity
from tests.fixers.setup_rig import MemoryTree

BROKEN = b"def build()\n    return 1\n"
PYTHON = ("python", "train.py")


def found(files, command=PYTHON):
    return [(one.severity, one.where) for one in judge_syntax(MemoryTree(files), command)]


@pytest.mark.parametrize(
    ("files", "command", "where"),
    [
        ({"train.py": BROKEN}, PYTHON, "train.py:1"),
        ({"train.py": b"import torch\nreturn torch\n"}, ("torchrun", "train.py"), "train.py:2"),
        ({"train.py": b"import sys\nsys.modules.pop('x'\n"}, PYTHON, "train.py:2"),
        ({"train.py": b"from parts import model\n", "parts/model.py": b"\n x = 1\n"}, PYTHON, "parts/model.py:2"),
        ({"own/go.py": b"from .lib import f\n", "own/lib.py": BROKEN}, ("python", "-m", "own.go"), "own/lib.py:1"),
    ],
)
def test_a_file_that_the_command_loads_in_any_case_must_parse(files, command, where):
    assert found(files, command) == [(Severity.ERROR, where)]


def test_a_file_that_a_shell_script_starts_is_a_warning():
    files = {"run.sh": b"#!/bin/bash\nset -e\npython train.py\n", "train.py": b"import lib\n", "lib.py": BROKEN}
    assert found(files, ("bash", "run.sh")) == [(Severity.WARNING, "lib.py:1")]


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": b"import torch\n", "unused.py": BROKEN},
        {"train.py": b"try:\n    import lib\nexcept SyntaxError:\n    lib = None\n", "lib.py": BROKEN},
        {"train.py": b"def late():\n    import lib\n", "lib.py": BROKEN},
        {"train.py": b"x = 1 is 1\n"},
        {"train.py": b"x = [" + b"0," * (LARGEST_BYTES // 2) + b"]\n"},
    ],
)
def test_files_that_may_not_be_loaded_or_are_only_too_large_are_not_reported(files):
    assert found(files) == []


def test_a_small_file_of_nested_finally_clauses_needs_little_memory():
    code = "".join(f"{'    ' * level}try: a\n{'    ' * level}finally:\n" for level in range(15))
    tracemalloc.start()
    try:
        assert found({"train.py": f"{code}{'    ' * 15}a\n".encode()}) == []
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def test_a_file_that_the_fixers_report_is_reported_once():
    both = judge_syntax(MemoryTree({"train.py": b"import lib\n(\n", "lib.py": BROKEN}), PYTHON)
    known = (error("unparsable-source", "not Python; left unchanged", "train.py:2"), error("bf16", "", "lib.py:1"))
    assert [one.where for one in both] == ["train.py:2"]
    assert without_known(both, known) == ()
    helper = judge_syntax(MemoryTree({"train.py": b"import lib\n", "lib.py": BROKEN}), PYTHON)
    assert without_known(helper, known) == helper
