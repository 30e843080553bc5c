"""Which GPU processes are orphans of ended runs, belong to others, or are still running, as tables."""

import pytest

from fixers.frame.change import HostChange, Plan
from fixers.setup import stale_processes
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.machine import GpuProcess
from tests.fixers.setup_rig import PROJECT, card, site_at, survey_of

MIB, GIB = 2**20, 2**30
OURS = GpuProcess(11, "python", 4 * GIB + GIB // 2, "me", "paper-1")
SECOND = GpuProcess(10, "python", GIB, "me", "paper-1")
OLDER = GpuProcess(9, "python", GIB, "me", "draft-7")
ANN = GpuProcess(12, "python", 2 * GIB, "ann")
NOBODYS = GpuProcess(13, "Xorg", 64 * MIB + 1)
DESKTOP = GpuProcess(14, "Xorg", 64 * MIB, "root")

LEFT = Finding(
    "stale-processes",
    Severity.INFO,
    "TITAN RTX: pid 11 (python) of the ended run paper-1 still holds 4.5 GiB",
    "GPU-1",
)
OF_ANN = Finding(
    "stale-processes",
    Severity.WARNING,
    "TITAN RTX: pid 12 (python) of ann holds 2.0 GiB; it is not a process of halfstep",
    "GPU-1",
    "contact the owner of the process, or choose another card in gpus:",
)
OF_NOBODY = Finding(
    "stale-processes",
    Severity.WARNING,
    "TITAN RTX: pid 13 (Xorg) holds 0.1 GiB; it is not a process of halfstep",
    "GPU-1",
    "contact the owner of the process, or choose another card in gpus:",
)


def end(run, pids, words):
    args = {"project": PROJECT.key, "fixer": "stale-processes", "run": run, "pids": pids}
    return HostChange("stale-processes", f"terminate {words}, orphaned by run {run}", "fix.processes.end", args)


def run_in(state, run="paper-1"):
    return RunSurvey(run, "paper", "f", 1, state)


def plan_of(*gpus, runs=()):
    return stale_processes.plan(site_at(None, survey=survey_of(gpus=gpus, runs=runs)))


END_11 = end("paper-1", [11], "process 11")


@pytest.mark.parametrize(
    ("processes", "runs", "findings", "changes"),
    [
        ((), (), (), ()),
        ((OURS,), (run_in(JobState.FAILED),), (LEFT,), (END_11,)),
        ((OURS,), (run_in(JobState.SUCCEEDED),), (LEFT,), (END_11,)),
        ((OURS,), (run_in(JobState.LOST),), (LEFT,), (END_11,)),
        ((OURS,), (run_in(JobState.RUNNING, "other"),), (LEFT,), (END_11,)),
        ((OURS,), (), (LEFT,), (END_11,)),
        ((OURS,), (run_in(JobState.RUNNING),), (), ()),
        ((ANN,), (), (OF_ANN,), ()),
        ((NOBODYS,), (), (OF_NOBODY,), ()),
        ((DESKTOP,), (), (), ()),
        ((OURS, DESKTOP, ANN), (run_in(JobState.FAILED),), (LEFT, OF_ANN), (END_11,)),
    ],
)
def test_only_processes_left_by_an_ended_run_of_this_project_are_terminated(processes, runs, findings, changes):
    assert plan_of(card(processes=processes), runs=runs) == Plan(findings, changes)


def test_one_process_on_two_cards_is_ended_once():
    cards = (card(processes=(OURS,)), card(index=1, uuid="GPU-2", processes=(OURS,)))
    assert plan_of(*cards).changes == (END_11,)
    assert [finding.where for finding in plan_of(*cards).findings] == ["GPU-1", "GPU-2"]


def test_each_ended_run_has_one_change_with_its_processes_in_order():
    plan = plan_of(card(processes=(OURS, SECOND, OLDER)))
    assert plan.changes == (end("draft-7", [9], "process 9"), end("paper-1", [10, 11], "processes 10, 11"))


def test_an_orphan_is_an_error_until_it_is_terminated():
    finding = stale_processes._orphan(card(), OURS)
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, ExitCode.GPU)


def test_without_a_survey_or_a_project_there_is_no_finding():
    busy = survey_of(gpus=(card(processes=(OURS, ANN)),))
    assert stale_processes.plan(site_at(None, survey=None)) == Plan()
    assert stale_processes.plan(site_at(None, survey=busy, project=None)) == Plan()
