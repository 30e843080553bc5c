"""SE-09: a log that a hostile host wrote is diagnosed in limited time and memory."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, SupportsIndex, overload

import pytest

from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.diagnose import MOST_NAMES, diagnose_log
from pipeline.diagnosis.lines import LONGEST_LINE, MOST_LINES, Line, parse_log
from pipeline.diagnosis.survived import is_handled
from pipeline.diagnosis.unrecognised import first_unrecognised

kinds, parser = (importlib.import_module(f"re.{name}") for name in ("_constants", "_parser"))
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    "line",
    [
        f"[rank{DIGITS}]: x",
        f"[host:{DIGITS}]: x",
        f"{DIGITS}: x",
        f"[1,{DIGITS}]<stdout>: x",
        f'  File "train.py", line {DIGITS}, in main',
    ],
    ids=["torchrun", "pdsh", "srun", "mpirun", "traceback"],
)
def test_SE_09_a_number_of_thousands_of_digits_is_text(line: str) -> None:
    log = f"Traceback (most recent call last):\n{line}\n{OUT_OF_MEMORY}\n"
    assert [one.check for one in diagnose_log(log)] == ["cuda-oom"]


@pytest.mark.parametrize("after", ["", f"h1: {OUT_OF_MEMORY}\n"])
def test_SE_09_each_line_is_looked_up_among_the_labels_of_a_log_in_one_step(after: str) -> None:
    """If each line were compared with each label, this log would take an hour."""
    hosts = 200_000
    text = "".join(f"h{host:x}: Traceback (most recent call last):\n" for host in range(hosts))
    lines = parse_log(text + after)
    assert {line.text for line in lines[:hosts]} == {"Traceback (most recent call last):"}
    assert lines[hosts].text == after.removeprefix("h1: ").strip()


@pytest.mark.parametrize(
    "line",
    ["FileNotFoundError: [Errno 2] No such file or directory: 'd{}'", "ModuleNotFoundError: No module named 'd{}'"],
)
def test_SE_09_a_diagnosis_contains_a_limited_number_of_names(line: str) -> None:
    """The cause of each missing file is searched in the folders of the project."""
    (found,) = diagnose_log("\n".join(line.format(number) for number in range(1000)))
    assert found.names == tuple(f"d{number}" for number in range(MOST_NAMES))
    assert found.count == 1000


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_SE_09_only_the_last_lines_of_a_log_are_kept_with_their_numbers(end: str) -> None:
    lines = parse_log(end * (2 * MOST_LINES) + "\nlast")
    assert MOST_LINES <= len(lines) <= MOST_LINES + 2**17
    assert lines[-1].text == "last" and lines[-1].number == (2 * MOST_LINES + 2 if end == "\n" else 2)


def test_SE_09_the_end_of_a_long_line_is_not_searched() -> None:
    assert len(parse_log("x" * 10_000)[0].text) == LONGEST_LINE
    assert diagnose_log("x" * LONGEST_LINE + OUT_OF_MEMORY) == ()


def test_SE_09_lines_below_a_box_are_joined_up_to_the_longest_line() -> None:
    lines = parse_log("\u2570\u2500\n" + "word \n" * 50_000)
    assert max(len(line.text) for line in lines) <= LONGEST_LINE + len("word ")
    assert parse_log("\u2570\u2500\nRuntimeError: a \nb")[-1].text == "RuntimeError: a b"


class Counted(list[Line]):
    """A list that counts the items that are read."""

    read = 0

    @overload
    def __getitem__(self, at: SupportsIndex) -> Line: ...
    @overload
    def __getitem__(self, at: slice) -> list[Line]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Line | list[Line]:
        found = super().__getitem__(at)
        self.read += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[Line]:
        self.read += len(self)
        return super().__iter__()


def test_SE_09_many_tracebacks_without_an_end_are_read_once() -> None:
    lines = Counted(parse_log("Traceback (most recent call last):\n" * 2000))
    assert first_unrecognised(lines, after=-1) is None
    assert lines.read < 10 * len(lines)


def _first_parts(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the parts with which a match may begin."""
    for kind, value in tree:
        if kind is kinds.BRANCH:
            for branch in value[1]:
                yield from _first_parts(branch)
        elif kind is kinds.SUBPATTERN:
            yield from _first_parts(value[3])
        else:
            yield kind, value
            if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT) and value[0] == 0:
                continue
        return


@pytest.mark.parametrize("entry", load_catalog(), ids=lambda entry: entry.id)
def test_SE_09_no_pattern_begins_with_a_repetition_without_limit(entry: Any) -> None:
    first = _first_parts(parser.parse(entry.pattern.pattern, entry.pattern.flags))
    repeats = [value for kind, value in first if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT)]
    assert all(most is not kinds.MAXREPEAT for _, most, _ in repeats)


@pytest.mark.parametrize("following", [",   continuing", "  ... retrying", "; skipping the batch"])
def test_a_line_after_an_exception_still_says_that_the_program_goes_on(following: str) -> None:
    assert is_handled(OUT_OF_MEMORY, following)
    assert not is_handled(OUT_OF_MEMORY, "," * 4000)
