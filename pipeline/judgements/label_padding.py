"""Labels that label-padding has padded with -100, where the proof saw a loss that does not ignore it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fixers.frame.change import FileChange, HostChange
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

CHECK = "labels-ignored"
FIXER = "label-padding"


def is_suspected(findings: Iterable[Finding]) -> bool:
    """The proof saw -100 in the target of a loss that does not ignore it, whoever put it there."""
    return any(finding.check == CHECK and finding.severity is Severity.WARNING for finding in findings)


def blamed(findings: tuple[Finding, ...], changes: Iterable[FileChange | HostChange]) -> tuple[Finding, ...]:
    """The findings, of which the suspicion is an error with the places where the fixer acted, if it acted."""
    files = [change for change in changes if isinstance(change, FileChange) and FIXER in change.fixers]
    if not files:
        return findings
    hunks = [f"{change.path}:{line}" for change in files for line in _lines(change)]
    return tuple(
        replace(
            finding,
            severity=Severity.ERROR,
            message=f"{finding.message}; {FIXER} put -100 there",
            where=", ".join(hunks),
            hint=f"pipeline run --set fixers.{FIXER}=never",
            exit_code=ExitCode.PRECISION,
        )
        if finding.check == CHECK and finding.severity is Severity.WARNING
        else finding
        for finding in findings
    )


def _lines(change: FileChange) -> list[str]:
    """The lines of the fixer's edits, out of `line 12: its reason (label-padding)`."""
    own = (why for why in change.why if why.endswith(f"({FIXER})"))
    return [why.removeprefix("line ").partition(":")[0] for why in own]
