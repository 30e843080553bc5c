"""Judgements of a host's setup over what a survey brought: tables, no host."""

import pytest

from fixers import compute_mode, flash_attention, shared_memory, stale_processes
from fixers.compute_mode import judge_modes
from fixers.flash_attention import judge_flash
from fixers.shared_memory import judge_shared_memory
from remote.protocol.findings import Severity
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.machine import Gpu, GpuProcess, Interpreter
from tests.fixers.setup_rig import PROJECT, machine, site_at, survey_of

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
GIB = 2**30


def card(**known):
    plain = {"index": 0, "uuid": "GPU-1", "name": "TITAN RTX", "capability": (7, 5), "memory_bytes": 24 * GIB}
    return Gpu(**{**plain, **known})


OURS = GpuProcess(11, "python", 4 * GIB, "me", "paper-1")
THEIRS = GpuProcess(12, "python", 2 * GIB, "ann")
DESKTOP = GpuProcess(13, "Xorg", 8 * 2**20, "root")


def run_in(state):
    return RunSurvey("paper-1", "paper", "f", 1, state)


@pytest.mark.parametrize(
    ("processes", "runs", "severities", "pids"),
    [
        ((), (), [], []),
        ((OURS,), (run_in(JobState.FAILED),), [INFO], [11]),
        ((OURS,), (run_in(JobState.SUCCEEDED),), [INFO], [11]),
        ((OURS,), (run_in(JobState.LOST),), [INFO], [11]),
        ((OURS,), (), [INFO], [11]),
        ((OURS,), (run_in(JobState.RUNNING),), [], []),
        ((THEIRS,), (), [WARNING], []),
        ((DESKTOP,), (), [], []),
        ((OURS, THEIRS), (run_in(JobState.FAILED),), [INFO, WARNING], [11]),
    ],
)
def test_only_what_an_ended_run_of_ours_left_is_ended(processes, runs, severities, pids):
    site = site_at(None, survey=survey_of(gpus=(card(processes=processes),), runs=runs))
    plan = stale_processes.plan(site)
    assert [finding.severity for finding in plan.findings] == severities
    assert [pid for change in plan.changes for pid in change.args["pids"]] == pids


def test_one_process_on_two_cards_is_ended_once():
    cards = (card(processes=(OURS,)), card(index=1, uuid="GPU-2", processes=(OURS,)))
    (change,) = stale_processes.plan(site_at(None, survey=survey_of(gpus=cards))).changes
    assert change.args == {"project": PROJECT.key, "fixer": "stale-processes", "run": "paper-1", "pids": [11]}


@pytest.mark.parametrize(
    ("gpus", "processes", "words"),
    [
        ((card(),), 2, []),
        ((card(compute_mode="Exclusive_Process"),), 1, []),
        ((card(compute_mode="Exclusive Process", processes=(OURS,)),), 1, []),
        ((card(compute_mode="Exclusive_Process"),), 2, ["2 are to share 1 card"]),
        ((card(compute_mode="Exclusive_Process", processes=(THEIRS,)),), 1, ["pid 12 python"]),
        ((card(compute_mode="Prohibited"),), 1, ["computes for nobody"]),
    ],
)
def test_an_exclusive_card_takes_one_process(gpus, processes, words):
    findings = judge_modes(gpus, processes)
    assert [finding.severity for finding in findings] == [ERROR] * len(words)
    assert all(word in finding.message for word, finding in zip(words, findings, strict=True))


def test_the_number_of_processes_is_the_configs():
    survey = survey_of(gpus=(card(compute_mode="Exclusive_Process"),))
    assert compute_mode.plan(site_at(None, survey=survey, config={"processes": 2})).findings
    assert not compute_mode.plan(site_at(None, survey=survey)).findings


@pytest.mark.parametrize(
    ("packages", "capability", "told"),
    [
        ({"flash-attn": "2.8.3"}, (7, 5), True),
        ({"flash_attn": "2.8.3"}, (7, 0), True),
        ({"flash-attn": "2.8.3"}, (8, 0), False),
        ({"flash-attn-3": "3.0"}, (8, 0), True),
        ({"flash-attn-3": "3.0"}, (9, 0), False),
        ({"torch": "2.13"}, (7, 5), False),
    ],
)
def test_flash_attention_is_told_where_the_card_cannot_run_it(packages, capability, told):
    assert bool(judge_flash(packages, card(capability=capability))) is told


def test_flash_attention_needs_a_known_card():
    survey = survey_of(interpreter=Interpreter("python", packages={"flash-attn": "2.8"}))
    assert not flash_attention.plan(site_at(None, survey=survey)).findings
    assert flash_attention.plan(site_at(None, survey=survey, gpu=card())).findings


@pytest.mark.parametrize(
    ("container", "size", "processes", "severities"),
    [
        (True, 64 * 2**20, 1, [WARNING]),
        (True, 64 * 2**20, 2, [ERROR]),
        (True, 512 * 2**20, 1, []),
        (True, 512 * 2**20, 2, [ERROR]),
        (True, 8 * GIB, 8, []),
        (False, 64 * 2**20, 8, []),
    ],
)
def test_shared_memory_of_a_container_is_measured_by_what_passes_through_it(container, size, processes, severities):
    findings = judge_shared_memory(machine(container=container, shm_bytes=size), processes)
    assert [finding.severity for finding in findings] == severities


def test_without_a_survey_nothing_is_said():
    for fixer in (stale_processes, compute_mode, flash_attention, shared_memory):
        plan = fixer.plan(site_at(None, survey=None))
        assert plan.empty
        assert plan.findings == ()
