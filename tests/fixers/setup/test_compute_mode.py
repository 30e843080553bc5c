"""The compute mode of each card, and whether a run can use it, as tables."""

import pytest

from fixers.frame.change import Plan
from fixers.setup import compute_mode
from fixers.setup.compute_mode import judge_modes
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import GpuProcess
from tests.fixers.setup_rig import card, site_at, survey_of

GIB = 2**30
OURS = GpuProcess(11, "python", 4 * GIB, "me", "paper-1")
ANN = GpuProcess(12, "python", 2 * GIB, "ann")
BOB = GpuProcess(14, "train", GIB, "bob")
EXCLUSIVE = card(compute_mode="Exclusive_Process")


def error(message, hint, where="GPU-1"):
    return Finding("compute-mode", Severity.ERROR, message, where, hint, ExitCode.GPU)


NOBODY = error("TITAN RTX runs no compute process (Prohibited)", "nvidia-smi -c DEFAULT, as root")
SHARED = error("TITAN RTX allows one process (Exclusive_Process); 2 would share 1 card(s)", "processes: 1")


@pytest.mark.parametrize(
    ("gpus", "processes", "findings"),
    [
        ((), 2, ()),
        ((card(),), 2, ()),
        ((card(processes=(ANN,)),), 1, ()),
        ((EXCLUSIVE,), 1, ()),
        ((EXCLUSIVE,), 2, (SHARED,)),
        ((EXCLUSIVE, card(uuid="GPU-2")), 2, ()),
        ((card(compute_mode="Exclusive Process", processes=(OURS,)),), 1, ()),
        (
            (card(compute_mode="Exclusive Process", processes=(OURS, ANN, BOB)),),
            1,
            (
                error(
                    "TITAN RTX allows one process (Exclusive Process) and already runs pid 12 python, pid 14 train",
                    "choose another card in gpus:, or wait until that process has ended",
                ),
            ),
        ),
        ((card(compute_mode="Prohibited", processes=(ANN,)),), 1, (NOBODY,)),
        ((card(uuid="GPU-2"), card(compute_mode="Prohibited"), EXCLUSIVE), 3, (NOBODY,)),
    ],
)
def test_an_exclusive_card_allows_one_process_and_a_prohibited_card_none(gpus, processes, findings):
    assert judge_modes(gpus, processes) == findings


def test_every_card_has_its_own_finding():
    gpus = (EXCLUSIVE, card(uuid="GPU-2", name="A100", compute_mode="Exclusive_Process"))
    assert [(finding.where, finding.hint) for finding in judge_modes(gpus, 3)] == [
        ("GPU-1", "processes: 2"),
        ("GPU-2", "processes: 2"),
    ]


@pytest.mark.parametrize(
    ("config", "findings"),
    [({"processes": 2}, (SHARED,)), ({"processes": 1}, ()), ({"processes": None}, ()), ({}, ())],
)
def test_the_number_of_processes_is_that_of_the_config_or_one(config, findings):
    assert compute_mode.plan(site_at(None, survey=survey_of(gpus=(EXCLUSIVE,)), config=config)) == Plan(findings)


def test_without_a_survey_there_is_no_finding():
    assert compute_mode.plan(site_at(None, survey=None, config={"processes": 2})) == Plan()
