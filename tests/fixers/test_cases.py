"""Every source fixer does what its cases show, and nothing else."""

from __future__ import annotations

import pytest

from fixers.plans.site_plan import applies, plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import CASES, Case, read_cases

EVERY = read_cases()


def _planned(case: Case, data: bytes):
    fixers = [case.fixer] if applies(case.fixer, case.target) else []
    return plan_file(case.path, data, fixers, case.target)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_the_file_becomes_what_the_case_shows(case: Case) -> None:
    outcome = _planned(case, case.before)
    after = outcome.change.after if outcome.change else case.before
    assert after.decode("utf-8", "backslashreplace") == (case.after or case.before).decode("utf-8", "backslashreplace")
    assert after == (case.after if case.after is not None else case.before)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_the_findings_are_those_the_case_names(case: Case) -> None:
    findings = [(f.where.rpartition(":")[2], f.severity.value, f.message) for f in _planned(case, case.before).findings]
    wanted = [tuple(each.split(" ", 2)) for each in case.findings]
    assert len(findings) == len(wanted), findings
    for (line, severity, message), (wanted_line, wanted_severity, words) in zip(
        sorted(findings), sorted(wanted), strict=True
    ):
        assert (line, severity) == (wanted_line, wanted_severity)
        assert words in message


@pytest.mark.parametrize("case", [case for case in EVERY if case.after is not None], ids=lambda case: case.name)
def test_FI_34_a_second_pass_changes_nothing(case: Case) -> None:
    assert case.after is not None
    assert _planned(case, case.after).change is None


@pytest.mark.parametrize("fixer", source_fixers(), ids=lambda fixer: fixer.name)
def test_a_fixer_has_a_case_where_it_acts_and_one_where_it_must_not(fixer) -> None:
    acts = [case for case in EVERY if case.fixer is fixer and case.after is not None]
    stays = [case for case in EVERY if case.fixer is fixer and case.after is None]
    assert acts
    assert stays


def test_every_case_belongs_to_a_fixer() -> None:
    assert {folder.name for folder in CASES.iterdir() if folder.is_dir()} <= {fixer.name for fixer in source_fixers()}
