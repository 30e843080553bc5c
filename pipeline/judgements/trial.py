"""Judgements of an interpreter that was really run: imports, a product of matrices on each card, a write."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.judgements.host import Need, judge_interpreter, unwritable
from remote.protocol.environment import EnvironmentFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Driver, Interpreter


def judge_trial(facts: EnvironmentFacts, need: Need, driver: Driver) -> Iterator[Finding]:
    """What is missing in the words of a look, and what the trial showed that versions on paper could not."""
    where = facts.interpreter.path
    yield from judge_interpreter(facts.interpreter, need)
    if facts.interpreter.error:
        return
    if facts.error:
        yield _error("python", f"the trial of {where} did not end well: {facts.error}", where)
    if facts.disk.error:
        yield unwritable(facts.disk)
    for package, problem in facts.imports.items():
        if problem and _is_installed(package, facts.interpreter):
            yield _error("packages", f"{package} does not import: {problem}", where)
    for card in facts.cards:
        if card.error:
            yield _error("gpu", f"{card.name} does not compute: {card.error}", str(card.index), ExitCode.GPU)
    if need.gpus_named and not facts.cuda_available and not facts.error:
        words = "torch sees no card although the host file names some"
        words += f": {driver.error}" if driver.error else ""
        yield _error("gpu", words, where, ExitCode.GPU, "nvidia-smi")


def _is_installed(package: str, python: Interpreter) -> bool:
    return python.torch is not None if package == "torch" else package in python.packages


def _error(check: str, message: str, where: str, code: ExitCode = ExitCode.ENVIRONMENT, hint: str = "") -> Finding:
    return Finding(check, Severity.ERROR, message, where, hint, code)
