"""If the hooks could not record a part of their report, no check judges what is absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.payload.proof.evidence import Evidence, Ranks
from remote.payload.proof.hooks.batch_report import BatchTables
from remote.payload.proof.hooks.parts import Parts
from remote.payload.proof.hooks.report import (
    AttentionTables,
    GradientFlow,
    Memory,
    ModelTables,
    ModuleOutputs,
    RankReport,
    TrainedTensors,
)
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.judge import judge_proof
from remote.payload.proof.pythons import Python
from remote.policy.precision import judge_precision
from remote.protocol.findings import Severity
from remote.protocol.proof import ProofReport, ProofRequest

SCRIPTS = Path(__file__).parent / "scripts"
EMPTY = {
    "model": {"model": ModelTables()},
    "trained": {"trained": TrainedTensors()},
    "gradient_flow": {"gradient_flow": GradientFlow()},
    "batches": {"batches": BatchTables()},
    "modules": {"modules": ModuleOutputs()},
    "attention": {"attention": AttentionTables()},
    "memory": {"memory": Memory()},
    "losses": {"open_losses": ()},
}
STEPS = (Step(1, True, (2.5,), 1.0, 1.0), Step(2, True, (2.25,), 1.0, 1.0))


def judge(*ranks: RankReport, **seen) -> ProofReport:
    request = ProofRequest("p", ("python", "train.py"), judge_precision(capability=(7, 5)), capability=(7, 5))
    return judge_proof(Evidence(request, ranks, **seen))


def rows(report: ProofReport) -> dict[str, str]:
    return {one.check: f"{one.severity} {one.message}" for one in report.findings}


@pytest.fixture(scope="module")
def _kept() -> dict[str, RankReport]:
    return {}


@pytest.mark.parametrize("name", ["healthy/steps_inside_autocast_without_cache.py", "faults/clipped_before_unscale.py"])
@pytest.mark.parametrize("part", EMPTY)
def test_a_result_without_a_part_is_the_result_with_it_or_not_checked(part, name, recorded) -> None:
    whole: RankReport = recorded(name)
    complete, partial = judge(whole), judge(replace(whole, **EMPTY[part], missing={part: "ValueError"}))
    assert {check: text for check, text in rows(partial).items() if rows(complete).get(check) != text} == {}
    lost = {one.check for one in partial.unseen} & set(rows(complete))
    assert lost, part


@pytest.fixture
def recorded(prove, tmp_path: Path, _kept) -> Callable[[str], RankReport]:
    """The report of rank 0 of a script, recorded once for all tests."""

    def read(name: str) -> RankReport:
        if name not in _kept:
            prove(SCRIPTS / name)
            _kept[name] = Ranks(str(tmp_path / "reports")).read()[0]
        return _kept[name]

    return read


def test_steps_whose_tensors_could_not_be_described_are_not_called_untrained() -> None:
    report = judge(RankReport(0, "done", steps=STEPS, missing={"model": "TypeError", "trained": "TypeError"}))
    assert [one for one in report.findings if one.severity is not Severity.INFO] == []
    reasons = {one.check: one.reason for one in report.unseen}
    assert reasons["trainable-set"] == "the hooks could not record what the check needs: TypeError"


def test_hooks_that_failed_before_the_first_step_are_named_instead_of_the_script() -> None:
    for timed_out in (False, True):
        report = judge(
            RankReport(0, "exited", faults=("Traceback\nValueError: bad shape\n",), missing={"model": "ValueError"}),
            pythons=(Python(7, "python train.py", torch=True, hooked=True),),
            timed_out=timed_out,
        )
        blind = [one.message for one in report.findings if one.severity is not Severity.INFO]
        assert blind == ["the hooks failed while they recorded the steps of rank 0: ValueError: bad shape"]


def test_one_part_that_raises_leaves_the_others() -> None:
    parts = Parts()
    assert parts.make("memory", lambda: 1 // 0, 5) == 5
    assert parts.make("losses", lambda: (1.0,), ()) == (1.0,)
    assert parts.missing == {"memory": "ZeroDivisionError"}
    assert "ZeroDivisionError" in parts.faults[0]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (
            f"/srv/{'x' * 90}/bin/python /srv/{'y' * 90}/train.py --epochs 3",
            "`python train.py --epochs 3` (process 41)",
        ),
        (f"python train.py {'--flag ' * 20}", f"`python train.py {'--flag ' * 8}--fla...` (process 41)"),
        ("/usr/bin/python train.py", "`/usr/bin/python train.py`"),
    ],
)
def test_a_long_command_still_names_its_script_and_its_process(command: str, shown: str) -> None:
    report = judge(pythons=(Python(41, command, torch=True, hooked=True),), exit=0)
    assert report.findings[0].message.startswith(f"{shown} imported torch, but no optimizer step")
