"""Judge the trial run of an interpreter: imports, a matrix product on each card, a write to disk. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.judgements.host import NO_DRIVER_HINT, ON_CPU, Need, judge_interpreter, unwritable
from remote.protocol.environment import EnvironmentFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.machine import Driver, Interpreter


def judge_trial(facts: EnvironmentFacts, need: Need, driver: Driver) -> Iterator[Finding]:
    """Yield the problems of the interpreter's versions and of its trial run."""
    where = facts.interpreter.path
    yield from judge_interpreter(facts.interpreter, need)
    if facts.interpreter.error:
        return
    if facts.error:
        yield Finding.error(
            "python", f"the test of {where} failed: {facts.error}", where, exit_code=ExitCode.ENVIRONMENT
        )
    if facts.disk.error:
        yield unwritable(facts.disk)
    for package, problem in facts.imports.items():
        if problem and _is_installed(package, facts.interpreter):
            yield Finding.error(
                "packages", f"{package} does not import: {problem}", where, exit_code=ExitCode.ENVIRONMENT
            )
    for card in facts.cards:
        if card.error:
            yield Finding.error(
                "gpu", f"{card.name} failed a matrix product: {card.error}", str(card.index), exit_code=ExitCode.GPU
            )
    if need.card_required and not facts.cuda_available and not facts.error:
        words = "torch finds no card" + ("" if driver.broken else " although `gpus:` names some")
        words += f": {driver.error}" if driver.error else ""
        yield Finding.error("gpu", words, where, ON_CPU if driver.broken else NO_DRIVER_HINT, ExitCode.GPU)


def _is_installed(package: str, python: Interpreter) -> bool:
    return python.torch is not None if package == "torch" else package in python.packages
