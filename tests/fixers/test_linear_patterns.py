"""SE-12: the time in which text of a project is read grows with its length, and not with its square."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import fixers
from fixers.frame.code_facts import TRL_CONFIG
from fixers.frame.code_traits import ON_BY_DEFAULT
from fixers.frame.modules import FROM, NAME
from fixers.sources.attention_choice import OF_MODELS
from fixers.sources.bf16_switches import switches_in
from fixers.sources.file_roles import DEFINES_MODULE
from fixers.sources.flash_only import IMPORTS_LAYER
from fixers.sources.launched import ONE, SEVERAL, UNKNOWN, launched_in
from fixers.sources.readers.bf16_values import bf16_values_in_text

PROBES = [chr(code) for code in range(1, 128)]


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield every pattern that a module of fixers compiles when it is imported."""
    for module in pkgutil.walk_packages(fixers.__path__, "fixers."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, re.Pattern):
                yield f"{module.name}.{name}", value


def characters(item: tuple[Any, Any], flags: int) -> frozenset[str]:
    """Return the characters of PROBES that the parsed item for one character matches."""
    kind, value = item
    if str(kind) == "LITERAL":
        return frozenset({chr(value), *(chr(value).swapcase() if flags & re.IGNORECASE else "")})
    if str(kind) == "NOT_LITERAL":
        return frozenset(PROBES) - {chr(value)}
    if str(kind) == "ANY":
        return frozenset(PROBES) - ({"\n"} if not flags & re.DOTALL else frozenset())
    if str(kind) == "IN":
        found = set()
        for inner, each in value:
            if str(inner) == "RANGE":
                found |= {one for one in PROBES if each[0] <= ord(one) <= each[1]}
            elif str(inner) == "CATEGORY":
                word = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[str(each).rpartition("_")[2]]
                matches = {one for one in PROBES if re.fullmatch(word, one)}
                found |= frozenset(PROBES) - matches if "_NOT_" in str(each) else matches
            elif str(inner) == "LITERAL":
                found |= {chr(each)}
        return frozenset(PROBES) - found if str(value[0][0]) == "NEGATE" else frozenset(found)
    return frozenset()


def unbounded(item: tuple[Any, Any], flags: int) -> frozenset[str]:
    """Return the characters that the item repeats without a limit, or no characters."""
    kind, value = item
    if str(kind) not in ("MAX_REPEAT", "MIN_REPEAT") or value[1] != _parser.MAXREPEAT or len(value[2]) != 1:
        return frozenset()
    return characters(value[2][0], flags)


def can_be_empty(item: tuple[Any, Any]) -> bool:
    kind, value = item
    return str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and value[0] == 0


def adjacent(items: Any, flags: int) -> Iterator[frozenset[str]]:
    """Yield the common characters of two unbounded repetitions with nothing between them that must match."""
    open_repeats: list[frozenset[str]] = []
    for item in items:
        own = unbounded(item, flags)
        if own:
            yield from (common for earlier in open_repeats if (common := earlier & own))
        open_repeats = [*(open_repeats if can_be_empty(item) else []), *([own] if own else [])]
        yield from inside(item[1], flags)


def inside(value: Any, flags: int) -> Iterator[frozenset[str]]:
    if isinstance(value, _parser.SubPattern):
        yield from adjacent(value, flags)
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from inside(each, flags)


def alternatives(body: Any) -> list[Any]:
    while len(body) == 1 and str(body[0][0]) == "SUBPATTERN":
        body = body[0][1][3]
    return body[0][1][1] if len(body) == 1 and str(body[0][0]) == "BRANCH" else [body]


def looped(value: Any, flags: int) -> Iterator[frozenset[str]]:
    """Yield the characters that the end of a repeated group repeats, if the group may also begin with them."""
    if not isinstance(value, (tuple, list, _parser.SubPattern)):
        return
    for each in value:
        yield from looped(each, flags)
    if (
        isinstance(value, tuple)
        and value
        and str(value[0]) in ("MAX_REPEAT", "MIN_REPEAT")
        and value[1][1] == _parser.MAXREPEAT
    ):
        ways = [way for way in alternatives(value[1][2]) if len(way)]
        begins = frozenset().union(*(characters(way[0], flags) | unbounded(way[0], flags) for way in ways))
        yield from (common for way in ways if (common := begins & unbounded(way[-1], flags)))


def ambiguous(pattern: re.Pattern[Any]) -> bool:
    return any(True for _ in adjacent(_parser.parse(pattern.pattern, pattern.flags), pattern.flags))


def test_SE_12_no_pattern_has_two_adjacent_repetitions_of_the_same_character() -> None:
    assert {name for name, pattern in patterns() if ambiguous(pattern)} == set()


def exponential(pattern: re.Pattern[Any]) -> bool:
    return any(True for _ in looped(_parser.parse(pattern.pattern, pattern.flags), pattern.flags))


def test_SE_12_no_pattern_can_divide_a_text_into_repetitions_in_many_ways() -> None:
    assert {name for name, pattern in patterns() if exponential(pattern)} == set()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [(r"(?:[ ]|#[^\n]*)*\)", True), (r"(a+)*b", True), (r"(?:[ ]|#[^\n]*+)*+\)", False), (r"(?:,[ ]*\w+)*", False)],
)
def test_the_check_of_patterns_finds_repeated_repetitions(pattern: str, found: bool) -> None:
    assert exponential(re.compile(pattern)) is found


@pytest.mark.parametrize(
    ("pattern", "found"),
    [(r"a[ \t]*:?[ \t]*b", True), (r"(?:x[ \t]+\s*)", True), (r"\w*\.\w*", False), (r"[ \t]*\\?\n?\d*", False)],
)
def test_the_check_of_patterns_finds_adjacent_repetitions(pattern: str, found: bool) -> None:
    assert ambiguous(re.compile(pattern)) is found


HOSTILE = {
    "values": lambda fill: bf16_values_in_text("c.json", b'{"bf16": true, "x": ' + fill),
    "switches": lambda fill: switches_in(b"bf16: true\n" + fill),
    "launched": lambda fill: launched_in("run.sh", b"python train.py --bf16; " + fill),
}


@pytest.mark.parametrize("reader", HOSTILE)
@pytest.mark.parametrize("fill", [b" ", b"-", b"a", b"python train.py --bf16; ", b"A=$A python a.py\n", b"bf16"])
def test_SE_12_hostile_text_of_half_a_megabyte_is_read(reader: str, fill: bytes) -> None:
    HOSTILE[reader](fill * (2**19 // len(fill)))  # the time limit of a test is far below the one of quadratic time


@pytest.mark.parametrize(
    "line",
    [
        b"srun;" * 2**19,
        b"torchrun train.py " + b"mpi_x " * 2**19,
        b"python train.py --nnodes" + b" " * 2**19,
        b"torchrun train.py --machine_rank=" + b" " * 2**19,
    ],
    ids=["srun", "mpi", "nnodes", "rank"],
)
def test_SE_12_numbers_of_machines_and_processes_on_one_long_line_are_read(line: bytes) -> None:
    [found] = launched_in("run.sh", b"torchrun train.py\n" + line)[:1]
    assert found.machines == (SEVERAL if b"srun" in line else ONE)


@pytest.mark.parametrize(
    ("given", "machines"),
    [
        (b"--nnodes 1", ONE),
        (b"--nnodes=1", ONE),
        (b"--nnodes \t= \t1", ONE),
        (b"--nnodes \t 2", SEVERAL),
        (b"--nnodes\t : 2", SEVERAL),
    ],
)
def test_the_number_of_machines_may_follow_any_separator(given: bytes, machines: int) -> None:
    [found] = launched_in("run.sh", b"torchrun " + given + b" train.py\n")
    assert found.machines == machines


@pytest.mark.parametrize(
    ("command", "processes"), [(b"mpirun -x A -np 1", False), (b"mpirun -np 2", True), (b"mpirun -np 2 -np 1", False)]
)
def test_mpi_starts_several_processes_unless_its_line_has_the_number_one(command: bytes, processes: bool) -> None:
    [found] = launched_in("run.sh", command + b" python train.py\n")
    assert found.processes is processes


BEGINNINGS = {
    FROM: b"from a import (\n",
    ON_BY_DEFAULT: b'"bf16" , \n',
    TRL_CONFIG: b"TrlParser(\n",
    DEFINES_MODULE: b"class A(\n",
    OF_MODELS: b"class A(\n",
    IMPORTS_LAYER: b"from transformers import (\n",
}


@pytest.mark.parametrize(("pattern", "text"), BEGINNINGS.items())
def test_SE_12_a_pattern_that_begins_on_every_line_reads_each_line_a_few_times(
    pattern: re.Pattern[bytes], text: bytes
) -> None:
    assert sum(1 for _ in pattern.finditer(text * (2**19 // len(text)))) < 2**19


@pytest.mark.parametrize("end", [b")", b") # b\n"])
def test_the_names_of_an_import_may_be_followed_by_comments_with_brackets(end: bytes) -> None:
    found = FROM.match(b"from a import (\n    b,  # noqa (F401)\n    c,\n" + end)
    assert found is not None and NAME.findall(found[2].replace(b"# noqa (F401)", b"")) == [b"b", b"c"]


def test_SE_12_numbers_of_machines_in_a_chain_of_variables_are_followed_once() -> None:
    chain = b"".join(b"A%d=$A%d\nA%d=${A%d}\n" % (at, at + 1, at, at + 1) for at in range(45)) + b"A45=1\n"
    [found] = launched_in("run.sh", chain + b"torchrun --nnodes $A0 train.py\n")
    assert found.machines == UNKNOWN


def test_SE_12_a_chain_of_variables_without_end_may_be_several_machines() -> None:
    chain = b"".join(b"A%d=$A%d\n" % (at, at + 1) for at in range(20_000))
    [found] = launched_in("run.sh", chain + b"torchrun --nnodes $A0 train.py\n")
    assert found.machines == SEVERAL


@pytest.mark.parametrize(
    ("number", "machines"), [(b"9" * 5000, SEVERAL), (b"1", ONE), (b"01", UNKNOWN), (b"$A", SEVERAL)]
)
def test_the_number_of_machines_may_have_any_number_of_digits(number: bytes, machines: int) -> None:
    [found] = launched_in("run.sh", b"A=$B\nB=$A\ntorchrun train.py --nnodes " + number + b"\n")
    assert found.machines == machines


@pytest.mark.parametrize(
    "text",
    [
        b"dtype: bf16",
        b"dtype =\tbf16",
        b"dtype:\n  bf16",
        b"--dtype \\\n  bf16",
        b'"args": "dtype=\\"bf16\\""',
        b"dtype bf16",
    ],
)
def test_a_value_is_found_in_every_spelling(text: bytes) -> None:
    [found] = bf16_values_in_text("c.txt", text)
    assert (found.option, found.word) == ("dtype", "bf16")
