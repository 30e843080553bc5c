"""Judgements of an interpreter that was really run: imports, a product of matrices on each card, a write."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.judgements.host import Need
from remote.protocol.environment import EnvironmentFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity


def judge_trial(facts: EnvironmentFacts, need: Need) -> Iterator[Finding]:
    """What the trial showed that versions on paper could not."""
    where = facts.interpreter.path
    if facts.interpreter.error:
        yield _error("python", f"{where} does not run: {facts.interpreter.error}", where)
        return
    if facts.error:
        yield _error("python", f"the trial of {where} did not end well: {facts.error}", where)
    if facts.disk.error:
        words = f"{facts.disk.path} cannot be written: {facts.disk.error}"
        yield _error("disk", words, facts.disk.mount, ExitCode.DISK)
    for package, problem in facts.imports.items():
        if problem:
            yield _error("packages", f"{package} does not import: {problem}", where)
    for card in facts.cards:
        if card.error:
            yield _error("gpu", f"{card.name} does not compute: {card.error}", str(card.index), ExitCode.GPU)
    if need.gpus_named and not facts.cuda_available and not facts.error:
        yield _error("gpu", "torch sees no card although the host file names some", where, ExitCode.GPU)


def _error(check: str, message: str, where: str, code: ExitCode = ExitCode.ENVIRONMENT) -> Finding:
    return Finding(check, Severity.ERROR, message, where, exit_code=code)
