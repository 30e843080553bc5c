"""Build the summary at the end of `fix`: changes, unchanged places with reasons, and decisions for the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fixers.frame.change import FileChange, Plan, SkippedPlace
from remote.protocol.findings import Finding, Severity
from remote.protocol.quantities import count

PLACES_SHOWN = 2
GROUPS_SHOWN = 5
"""The maximum number of warnings. Each warning takes three lines, so that the summary fits on a screen of 24 lines."""

Rows = tuple[tuple[str, str], ...]


def summarise(plan: Plan, *, done: bool, whole: bool = False) -> Rows:
    """Return the rows of the summary as (label, text). Rows without text are omitted.

    `whole`: every warning is listed above the summary.
    """
    warnings = [finding for finding in plan.findings if finding.severity is Severity.WARNING]
    rows = (
        ("changed" if done else "to change", _changes(plan)),
        ("left alone", _left(plan.skipped)),
        ("to decide", _decisions(warnings, whole=whole)),
    )
    return tuple((label, text) for label, text in rows if text)


def list_left(left: Sequence[SkippedPlace]) -> Rows:
    """Return one row (reason, place) for each place that was not changed, sorted by reason."""
    return tuple((each.reason, each.where) for each in sorted(left, key=lambda one: (one.reason, one.where)))


def group_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge equal warnings of several places, the most frequent first.

    Errors are not changed. At most GROUPS_SHOWN warnings are returned. If there are more, one further warning counts
    the others.
    """
    given = list(findings)
    errors = [finding for finding in given if finding.severity is Severity.ERROR]
    merged = _merged(given)
    shown = [replace(finding, where=_places(places)) for finding, places in merged[:GROUPS_SHOWN]]
    return (*errors, *shown, *_rest(merged[GROUPS_SHOWN:]))


def _merged(findings: Iterable[Finding]) -> list[tuple[Finding, list[str]]]:
    """Return each different warning with its places, the most frequent first."""
    groups: dict[Finding, list[str]] = {}
    for finding in findings:
        if finding.severity is Severity.WARNING:
            groups.setdefault(replace(finding, where=""), []).append(finding.where)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _rest(groups: Sequence[tuple[Finding, list[str]]]) -> Iterator[Finding]:
    if groups:
        checks: Counter[str] = Counter()
        for finding, places in groups:
            checks[finding.check] += len(places)
        message = f"{count(checks.total(), 'more warning')}, not listed here ({_ranked(checks)})"
        yield Finding.warning("fix", message, hint="pipeline fix --diff -v")


def _decisions(warnings: Sequence[Finding], *, whole: bool) -> str:
    """Return the number of warnings, and how many of them are listed."""
    if not warnings:
        return ""
    hidden = 0 if whole else sum(len(places) for _, places in _merged(warnings)[GROUPS_SHOWN:])
    if not hidden:
        return f"{count(len(warnings), 'warning')}, listed above"
    return f"{count(len(warnings), 'warning')}, {len(warnings) - hidden} of them listed above"


def _places(places: Sequence[str]) -> str:
    named = [place for place in places if place]
    rest = len(named) - PLACES_SHOWN
    return ", ".join(named[:PLACES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _changes(plan: Plan) -> str:
    files = [change for change in plan.changes if isinstance(change, FileChange)]
    fixers = Counter(line.rpartition("(")[2].rstrip(")") for change in files for line in change.why)
    others = len(plan.changes) - len(files)
    parts = [f"{count(len(files), 'file')} ({_ranked(fixers)})"] if files else []
    parts += [count(others, "change of the host") if others == 1 else f"{others} changes of the host"] if others else []
    return ", ".join(parts) or "nothing"


def _left(left: Sequence[SkippedPlace]) -> str:
    return _ranked(Counter(each.reason for each in left), "; ")


def _ranked(counts: Counter[str], separator: str = ", ") -> str:
    return separator.join(f"{name}: {number}" for name, number in counts.most_common())
