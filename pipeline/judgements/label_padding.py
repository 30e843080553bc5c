"""Check whether the fixer label-padding inserted -100 for a loss that does not ignore -100. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fixers.frame.change import FileChange, HostChange
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.shell import shell_command

CHECK = "labels-ignored"
FIXER = "label-padding"


def is_suspected(findings: Iterable[Finding]) -> bool:
    """Return True if the proof found -100 in the target of a loss that does not ignore -100."""
    return any(finding.check == CHECK and finding.severity is Severity.WARNING for finding in findings)


def with_padding_errors(
    findings: tuple[Finding, ...], changes: Iterable[FileChange | HostChange]
) -> tuple[Finding, ...]:
    """If label-padding edited files, turn the warning about -100 into an error that lists the edited lines."""
    files = [change for change in changes if isinstance(change, FileChange) and FIXER in change.fixers]
    if not files:
        return findings
    hunks = [f"{change.path}:{line}" for change in files for line in _lines(change)]
    return tuple(
        replace(
            finding,
            severity=Severity.ERROR,
            message=f"{finding.message}; {FIXER} inserted -100",
            where=", ".join(hunks),
            hint=shell_command("pipeline run --set fixers.{}=never", FIXER),
            exit_code=ExitCode.PRECISION,
        )
        if finding.check == CHECK and finding.severity is Severity.WARNING
        else finding
        for finding in findings
    )


def _lines(change: FileChange) -> list[str]:
    """Return the line numbers of the fixer's edits, parsed from reasons such as `line 12: ... (label-padding)`."""
    reasons = (reason for reason in change.why if reason.endswith(f"({FIXER})"))
    return [reason.removeprefix("line ").partition(":")[0] for reason in reasons]
