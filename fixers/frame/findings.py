"""Constructors of the findings that fixers report."""

from __future__ import annotations

from dataclasses import replace

from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def error(check: str, message: str, where: str, hint: str = "", *, exit_code: ExitCode = ExitCode.FIXER) -> Finding:
    """Return a finding of severity error, which stops the stage."""
    return Finding.error(check, message, where, hint, exit_code)


warning = Finding.warning


def resolved(finding: Finding) -> Finding:
    """Return the finding with severity info. Use this for a finding that a change of the same plan resolves."""
    return replace(finding, severity=Severity.INFO, hint="", exit_code=ExitCode.OK)
