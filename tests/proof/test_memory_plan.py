"""A memory plan of the built-in trainer that does not fit is the error of its proof, with numbers and exit code 21."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.payload.proof.evidence import Evidence
from remote.payload.proof.judge import judge_proof
from remote.payload.proof.memory import read_memory_plan
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.proof import ProofRequest
from remote.protocol.training import MemoryPlan
from remote.protocol.values import dumps

GIB = 2**30
PLAN = MemoryPlan(2, 32, 32, 32, 420, 11 * GIB, 7 * GIB, "Tesla P4 (assumed)", "a card with more memory")
REQUEST = ProofRequest("project", ("python",), judge_precision(capability=(6, 1)))


def test_the_plan_is_read_back_and_a_missing_or_broken_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    assert read_memory_plan(str(path)) is None
    path.write_bytes(dumps(PLAN))
    assert read_memory_plan(str(path)) == PLAN
    path.write_text('{"micro_batch": "two"}')
    assert read_memory_plan(str(path)) is None


def test_a_plan_that_does_not_fit_is_the_error_instead_of_the_failed_command() -> None:
    report = judge_proof(Evidence(REQUEST, (), exit=21, output_tail="halfstep stopped this training", memory=PLAN))
    (error,) = report.report.errors
    assert (error.check, error.exit_code, error.hint) == ("gpu-memory", ExitCode.GPU, "a card with more memory")
    assert error.message == (
        "2 samples of 420 tokens, with 32 of 32 layers checkpointed, need about 11 GiB; Tesla P4 (assumed) has 7 GiB "
        "to use"
    )


@pytest.mark.parametrize("memory", [None, MemoryPlan(8, 8, 0, 32, 420, 5 * GIB, 7 * GIB, "Tesla P4")])
def test_a_command_that_fails_for_another_reason_is_reported_as_failed(memory: MemoryPlan | None) -> None:
    report = judge_proof(Evidence(REQUEST, (), exit=1, output_tail="KeyError: 'x'", memory=memory))
    assert "command-failed" in [error.check for error in report.report.errors]
