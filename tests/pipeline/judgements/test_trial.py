"""What only a trial of the interpreter shows; everything else has the words of the survey's findings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.judgements.host import Need, judge_interpreter
from pipeline.judgements.trial import judge_trial
from remote.protocol.environment import CardTrial, EnvironmentFacts
from remote.protocol.exits import ExitCode
from remote.protocol.machine import Disk, Driver, Interpreter, Torch

PLAIN = Need(10**9, built_in_trainer=False)
NAMED = replace(PLAIN, card_required=True)
PYTHON = Interpreter("/venv/bin/python", version=(3, 11, 2), torch=Torch("2.6.0+cu124", "12.4"))
WELL = EnvironmentFacts(PYTHON, Disk("/w", "/", 10**12, 10**12, 10**6), cuda_available=True, imports={"torch": ""})
CARD = CardTrial(0, "TITAN RTX", (7, 5), "out of memory")


@pytest.mark.parametrize(
    ("facts", "need", "expected"),
    [
        (WELL, NAMED, []),
        (replace(WELL, cuda_available=False), PLAIN, []),
        (replace(WELL, cuda_available=False), NAMED, [("gpu", ExitCode.GPU)]),
        (replace(WELL, cards=(CARD,)), NAMED, [("gpu", ExitCode.GPU)]),
        (replace(WELL, imports={"torch": "OSError: libcudart"}), PLAIN, [("packages", ExitCode.ENVIRONMENT)]),
        (replace(WELL, error="killed by signal 11"), NAMED, [("python", ExitCode.ENVIRONMENT)]),
        (replace(WELL, disk=replace(WELL.disk, error="quota")), PLAIN, [("disk", ExitCode.DISK)]),
    ],
)
def test_what_the_trial_shows_is_reported(
    facts: EnvironmentFacts, need: Need, expected: list[tuple[str, ExitCode]]
) -> None:
    assert [(finding.check, finding.exit_code) for finding in judge_trial(facts, need, Driver())] == expected


@pytest.mark.parametrize(
    "python", [replace(PYTHON, torch=None), replace(PYTHON, error="there is no such file")], ids=["no torch", "gone"]
)
def test_a_missing_package_is_one_finding_with_the_message_of_the_survey(python: Interpreter) -> None:
    imports = {"torch": "ModuleNotFoundError: No module named 'torch'"}
    found = list(judge_trial(replace(WELL, interpreter=python, imports=imports), PLAIN, Driver()))
    assert found == list(judge_interpreter(python, PLAIN))
    assert [finding.hint for finding in found] != [""]


def test_a_card_that_torch_does_not_see_is_reported_with_the_drivers_facts() -> None:
    [finding] = judge_trial(replace(WELL, cuda_available=False), NAMED, Driver(error="cannot communicate"))
    assert finding.message.endswith(": cannot communicate") and "host.gpus=[]" in finding.hint
