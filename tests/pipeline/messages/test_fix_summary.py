"""The end of `fix`: what changed, what is left alone and why. Equal warnings are shown once."""

from __future__ import annotations

from fixers.frame.change import FileChange, HostChange, Plan, SkippedPlace
from pipeline.messages.fix_summary import GROUPS_SHOWN, group_findings, list_left, summarise
from remote.protocol.findings import Finding

WHY = ("line 1: no bfloat16 on this card (bf16-to-fp16)", "line 9: no bfloat16 on this card (bf16-to-fp16)")
CHANGES = (
    FileChange("a.py", b"1", b"2", {"bf16-to-fp16": 1}, WHY),
    FileChange("b.sh", b"1", b"2", {"port": 1}, ("line 2: a free port (port)",)),
)
LEFT = (
    SkippedPlace("tests/a.py", "tests"),
    SkippedPlace("b.py:3", "weights that are saved"),
    SkippedPlace("tests/c.py", "tests"),
)
WARNINGS = tuple(Finding.warning("x", "the same", f"a.py:{line}", "do it") for line in (1, 2, 3, 4))


def test_each_row_counts_its_places_by_fixer_or_reason() -> None:
    assert summarise(Plan(WARNINGS, CHANGES, LEFT), done=True) == (
        ("changed", "2 files (bf16-to-fp16: 2, port: 1)"),
        ("left alone", "tests: 2; weights that are saved: 1"),
        ("to decide", "4 warnings, listed above"),
    )


def test_rows_without_content_are_left_out() -> None:
    assert summarise(Plan(), done=False) == (("to change", "nothing"),)


def test_changes_of_the_host_are_counted_beside_files() -> None:
    plan = Plan(changes=(CHANGES[1], HostChange("tokenizer", "", ""), HostChange("environment", "", "")))
    assert summarise(plan, done=True) == (("changed", "1 file (port: 1), 2 changes of the host"),)


def test_equal_warnings_are_one_with_the_first_places() -> None:
    (one,) = group_findings(WARNINGS)
    assert (one.message, one.where, one.hint) == ("the same", "a.py:1, a.py:2 and 2 more", "do it")


def test_errors_come_first_and_are_never_merged_or_cut() -> None:
    errors = tuple(Finding.error("e", "bad", f"a.py:{line}") for line in range(9))
    assert group_findings((*WARNINGS, *errors))[:9] == errors


def test_the_kinds_that_do_not_fit_are_counted() -> None:
    kinds = tuple(Finding.warning("x", f"kind {number}", "a.py:1") for number in range(GROUPS_SHOWN + 3))
    *shown, rest = group_findings((*kinds, kinds[-1]))
    assert [one.message for one in shown] == [kinds[-1].message, *(f"kind {n}" for n in range(GROUPS_SHOWN - 1))]
    assert rest.message == "3 more warnings, not listed here (x: 3)"


def test_every_place_is_listed_under_its_reason() -> None:
    assert list_left(LEFT) == (
        ("tests", "tests/a.py"),
        ("tests", "tests/c.py"),
        ("weights that are saved", "b.py:3"),
    )


def test_the_summary_counts_the_warnings_that_are_not_listed() -> None:
    kinds = tuple(Finding.warning("x", f"kind {number}", "a.py:1") for number in range(GROUPS_SHOWN + 3))
    plan = Plan((*kinds, kinds[-1]))
    total = GROUPS_SHOWN + 4
    assert summarise(plan, done=True)[-1] == ("to decide", f"{total} warnings, {total - 3} of them listed above")
    assert summarise(plan, done=True, whole=True)[-1] == ("to decide", f"{total} warnings, listed above")


def test_warnings_that_are_not_listed_are_counted_by_check() -> None:
    others = (Finding.warning("y", f"other {number}", "b.py:1") for number in range(2))
    kinds = (Finding.warning("x", f"kind {number}", "a.py:1") for number in range(GROUPS_SHOWN + 1))
    *_, rest = group_findings((*kinds, *others))
    assert (rest.message, rest.hint) == ("3 more warnings, not listed here (y: 2, x: 1)", "pipeline fix --diff -v")
