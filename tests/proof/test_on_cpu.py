"""A proof on a machine without a card names what its CPU is the cause of, and nothing that would train."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from pipeline.stages.verify import diagnose_proof
from remote.payload.proof import checks_dtypes, checks_outcome
from remote.payload.proof.evidence import Evidence
from remote.payload.proof.hooks.report import Crash, Device, DtypeCount, Flags, ModelTables, RankReport, TrainedTensors
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.judge import judge_proof
from remote.policy.precision import judge_precision
from remote.protocol.proof import ProofRequest
from tests.pipeline.views import view_of

SCRIPTS = Path(__file__).parent / "scripts"
MISMATCH = "mat1 and mat2 must have the same dtype, but got Half and Float"
LOSS = "Found dtype Float but expected Half"

PURE_BF16 = """
import torch

torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64)).to(torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for _ in range(30):
    ids = torch.randint(64, (4, 16))
    loss = torch.nn.functional.cross_entropy(model(ids).float().flatten(0, 1), (ids.flatten() + 1) % 64)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def failed(message: str, *, waits: bool = True, dtype: str = "float16", capability=(7, 5)) -> Evidence:
    """Return the evidence of a command that failed with that message before its first step."""
    tables = ModelTables(dtypes=(DtypeCount("frozen", dtype, 1, 8, 16),), device=Device("cpu", "CPU"))
    rank = RankReport(
        0,
        "exception",
        crash=Crash("RuntimeError", message),
        model=tables,
        flags=Flags(accelerate_only_on_card=waits),
    )
    request = ProofRequest("p", (), judge_precision(capability=capability), capability=capability)
    return Evidence(request, (rank,), exit=1, output_tail=f"RuntimeError: {message}\n")


@pytest.mark.parametrize(
    ("evidence", "findings"),
    [
        (failed(MISMATCH), [("autocast", "error"), ("command-failed", "error")]),
        (failed(MISMATCH, waits=False), [("command-failed", "error")]),
        (failed(MISMATCH, dtype="float32"), [("command-failed", "error")]),
        (failed("out of memory"), [("command-failed", "error")]),
        (failed(LOSS), [("command-failed", "error"), ("autocast", "warning")]),
    ],
)
def test_a_dtype_mismatch_caused_by_missing_autocast_is_reported_before_the_failure(evidence: Evidence, findings):
    assert [(one.check, one.severity.value) for one in checks_outcome.judge(evidence)] == findings


@pytest.mark.parametrize(
    ("evidence", "catalog"),
    [
        (failed(MISMATCH), []),
        (failed(MISMATCH, waits=False), ["mat1-mat2-dtype"]),
        (failed(LOSS), ["found-float-expected-half"]),
    ],
)
def test_the_catalog_names_a_cause_only_where_the_proof_has_none(evidence: Evidence, catalog, tmp_path):
    assert [one.check for one in diagnose_proof(view_of(tmp_path), judge_proof(evidence)).findings] == catalog


def test_the_cause_of_a_real_mismatch_on_the_cpu_is_autocast(prove):
    report = prove(SCRIPTS / "faults" / "head_beside_half_base.py")
    assert report.explains_failure
    assert [one.check for one in report.report.errors][:2] == ["autocast", "command-failed"]
    assert "--no-proof" in report.findings[0].hint


def moments(dtype: str, capability: tuple[int, int] | None, weights: str) -> tuple[str, str]:
    """Return severity and hint for an optimizer with moments of that dtype."""
    rank = RankReport(
        0,
        "done",
        steps=(Step(1, True),),
        model=ModelTables(dtypes=(DtypeCount("trainable", weights, 1, 8, 16),), device=Device("cpu", "CPU")),
        trained=TrainedTensors(optimizer_state=(DtypeCount("state", dtype, 2, 16, 32),)),
    )
    plan = judge_precision(capability=capability)
    found = checks_dtypes.judge(Evidence(ProofRequest("p", (), plan, capability=capability), (rank,)))
    [one] = [result for result in found if result.check == "optimizer-state-dtype"]
    return one.severity.value, one.hint


@pytest.mark.parametrize(
    ("dtype", "capability", "severity"),
    [
        ("bfloat16", None, "warning"),
        ("bfloat16", (7, 5), "error"),
        ("bfloat16", (8, 0), "warning"),
        ("float16", None, "error"),
        ("float16", (7, 5), "error"),
        ("float32", None, "info"),
    ],
)
def test_half_moments_are_an_error_only_where_their_range_is_too_small(dtype: str, capability, severity: str):
    found, hint = moments(dtype, capability, dtype)
    assert found == severity
    assert hint.startswith("pipeline fix") == (severity == "error")


def test_a_bfloat16_script_trains_on_a_machine_without_a_card(prove, tmp_path: Path):
    script = tmp_path / "pure.py"
    script.write_text(PURE_BF16)
    report = prove(script, capability=None)
    assert report.report.errors == ()
    assert report.applied >= 2


def test_a_trainer_that_refuses_bf16_without_a_card_has_two_ways_out():
    [found] = diagnose_text("ValueError: Your setup doesn't support bf16/gpu. You need to assign use_cpu if you want\n")
    assert "pipeline run --set host.card=titan-rtx" in found.hint and "use_cpu=True" in found.hint
