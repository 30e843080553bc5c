"""Decide the exit code for all findings of a command or a stage."""

from __future__ import annotations

from typing import Iterable

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def exit_code_of(findings: Iterable[Finding], default: ExitCode) -> ExitCode:
    """Return the exit code of the first error, or `default` if this error has no exit code.

    If no finding is an error, return the first exit code of a warning (for example about an unreachable host), else OK.
    """
    findings = tuple(findings)
    for finding in findings:
        if finding.severity is Severity.ERROR:
            return finding.exit_code or default
    return next((finding.exit_code for finding in findings if finding.exit_code), ExitCode.OK)
