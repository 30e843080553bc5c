"""A fixer that misbehaves leaves the file unchanged and is reported with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fixers.frame.disk_tree import LARGEST_SOURCE_BYTES
from fixers.frame.source_fixer import Rewrite
from fixers.frame.target import Target
from fixers.plans.file_plan import judge_size, plan_file
from fixers.registry import FIXERS, FixerEntry, source_fixers
from fixers.sources.lines import LONGEST_LINE_BYTES
from fixers.sources.source import Source
from fixers.sources.splice import Edit
from fixers.sources.unparsable import Unparsable
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from tests.fixers.casebook import TITAN_RTX


@dataclass(frozen=True)
class Fixer:
    """A source fixer whose edits are given."""

    edits: Callable[[Source], tuple[Edit, ...]]
    name: str = "trial"
    safety: str = "safe"
    needles: tuple[bytes, ...] = (b"x",)
    below: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()

    def matches(self, path: str) -> bool:
        return not path.endswith(".skip")

    def rewrite(self, source: Source, target: Target) -> Rewrite:
        return Rewrite(self.edits(source), (Finding(self.name, Severity.INFO, "looked", source.path),))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("trial", "next", "never"):
        monkeypatch.setitem(FIXERS, name, FixerEntry("code", 3))


def _replace(old: bytes, new: bytes) -> Callable[[Source], tuple[Edit, ...]]:
    def edits(source: Source) -> tuple[Edit, ...]:
        at = source.data.find(old)
        return (Edit(at, old, new, "why"),) if at >= 0 else ()

    return edits


def _refuse(source: Source) -> tuple[Edit, ...]:
    raise Unparsable("not today", 7)


CELL = json.dumps({"cells": [{"cell_type": "code", "source": ["a = 1\n", "x = 1\n"]}]}).encode()
FAULTS = [
    (
        "a.py",
        b"a = 1\nx = 1\n",
        _replace(b"x = 1", b"x = ("),
        "a.py:2",
        "the rewritten file would not parse (not Python",
    ),
    (
        "a.py",
        b"x = 1\n",
        _replace(b"x", b"xx"),
        "a.py",
        "a second pass would change the file again (line 1: why (trial))",
    ),
    ("a.py", b"\nx = 1\n", lambda source: (Edit(1, b"y", b"z", "w"),), "a.py:2", "expected b'y' at this position (w)"),
    ("a.py", b"x\n", lambda source: (Edit(0, b"x\n", b"", "a"), Edit(1, b"\n", b"", "b")), "a.py:1", "overlap (b)"),
    ("a.unknown", b"x", _replace(b"x", b"y"), "a.unknown", "no parser can check the rewritten file"),
    ("a.ipynb", CELL, _replace(b"x = 1", b"x = ("), "a.ipynb:1", "after the rewrite cell 0 is not Python"),
]


@pytest.mark.parametrize(("path", "data", "edits", "where", "words"), FAULTS)
def test_a_failed_rewrite_leaves_the_file_unchanged(path: str, data: bytes, edits, where: str, words: str) -> None:
    outcome = plan_file(path, data, [Fixer(edits)], Target())
    assert outcome.change is None
    (finding,) = outcome.findings
    assert (finding.check, finding.severity, finding.where) == ("trial", Severity.ERROR, where)
    assert finding.exit_code is ExitCode.FIXER
    assert words in finding.message


def test_what_a_fixer_cannot_read_is_reported_with_its_line() -> None:
    (finding,) = plan_file("a.py", b"x", [Fixer(_refuse)], Target()).findings
    assert (finding.check, finding.where, finding.message) == (
        "unparsable-source",
        "a.py:7",
        "not today; left unchanged",
    )


def test_each_fixer_sees_what_the_one_before_it_left() -> None:
    fixers = [
        Fixer(_replace(b"x = 1", b"y = 2")),
        Fixer(_replace(b"y = 2", b"z = 3"), name="next", needles=(b"y",)),
        Fixer(_replace(b"z", b"!"), name="never", needles=(b"q", b"w")),
    ]
    outcome = plan_file("a.py", b"\nx = 1\n", fixers, Target())
    assert outcome.change is not None
    assert outcome.change.after == b"\nz = 3\n"
    assert outcome.change.fixers == {"trial": 3, "next": 3}
    assert outcome.change.why == ("line 2: why (trial)", "line 2: why (next)")
    assert [finding.check for finding in outcome.findings] == ["trial", "next"]


@pytest.mark.parametrize(("path", "data"), [("a.skip", b"x"), ("a.py", b"y")])
def test_a_file_that_no_fixer_handles_is_not_parsed(path: str, data: bytes) -> None:
    assert plan_file(path, data, [Fixer(_refuse)], Target()).findings == ()


def test_the_largest_source_is_read_and_one_byte_more_is_not() -> None:
    largest = (b"x" + b"#" * 1022 + b"\n") * (LARGEST_SOURCE_BYTES // 1024)
    places = [
        plan_file("a.py", data, [Fixer(_refuse)], Target()).findings[0].where for data in (largest, largest + b"#")
    ]
    assert places == ["a.py:7", "a.py:1"]


@pytest.mark.parametrize("path", ["a.py", "a.json", "a.sh", "README.md"])
def test_SE_a_file_with_a_very_long_line_is_data(path: str) -> None:
    longest = b"x" * LONGEST_LINE_BYTES
    for text in (b"y\n" + longest, longest + b"\r\ny\r\n"):
        (read,) = plan_file(path, text, [Fixer(_refuse)], Target()).findings
        assert "too long" not in read.message
    (finding,) = plan_file(path, b"y\n" + longest + b"x\n", [Fixer(_refuse)], Target()).findings
    assert (finding.where, finding.message.partition(";")[0]) == (
        f"{path}:2",
        "a line of 32769 bytes: too long for a source file",
    )


def test_a_notebook_may_have_the_long_lines_of_pictures() -> None:
    assert judge_size("a.ipynb", b"x" * 2**20) is None


@pytest.mark.parametrize("path", ["a.py", "a.ipynb"])
def test_SE_code_that_would_need_gigabytes_as_a_syntax_tree_is_not_parsed(path: str) -> None:
    code = "x = [" + "0,\n" * 2**20 + "]  # bfloat16\n"
    data = json.dumps({"cells": [{"cell_type": "code", "source": code}]}) if path == "a.ipynb" else code
    (finding,) = plan_file(path, data.encode(), list(source_fixers()), Target(TITAN_RTX)).findings
    assert "too large to be a source file" in finding.message


@pytest.mark.parametrize("end", [b"\r", b"\x0b", b"\x0c"])
def test_SE_a_byte_that_ends_no_line_in_a_pattern_does_not_shorten_a_line(end: bytes) -> None:
    half = b"x" * (LONGEST_LINE_BYTES // 2)
    finding = judge_size("a.py", b"y\n" + half + end + half + b"\n")
    assert finding is not None
    assert finding.where == "a.py:2"
    assert judge_size("a.py", half + b"\r\n" + half + b"\r\n") is None


def test_SE_a_fixer_that_recurses_too_deep_leaves_the_file_unchanged() -> None:
    def edits(source: Source) -> tuple[Edit, ...]:
        return edits(source)

    outcome = plan_file("a.py", b"x = 1\n", [Fixer(edits)], Target())
    assert outcome.change is None
    assert [(each.check, each.severity) for each in outcome.findings] == [("unparsable-source", Severity.ERROR)]
