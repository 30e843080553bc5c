"""Turn the evidence of a proof into its report: the result of every check, and the measurements."""

from __future__ import annotations

import math
from typing import Iterator, Optional, Tuple

from remote.payload.proof import (
    checks_counterfactual,
    checks_device,
    checks_dtypes,
    checks_gradient_flow,
    checks_labels,
    checks_loss,
    checks_mixed_precision,
    checks_outcome,
    checks_runtime,
    checks_steps,
    checks_targets,
)
from remote.payload.proof.evidence import Evidence, Result
from remote.payload.proof.hooks.step import Step
from remote.payload.proof.missing_parts import without_unfounded
from remote.payload.proof.provenance import find_origins
from remote.protocol.findings import Finding
from remote.protocol.launchers import launcher_at
from remote.protocol.proof import DtypeRow, NotChecked, ProofReport, ProvedStep

CHECKS = (
    checks_dtypes,
    checks_mixed_precision,
    checks_loss,
    checks_steps,
    checks_gradient_flow,
    checks_labels,
    checks_targets,
    checks_counterfactual,
    checks_device,
)
NEVER_CHECKED = (
    NotChecked("tiny-overfit", "the check needs 20 steps on four samples; the card step makes them with a small model"),
    NotChecked("resume-probe", "the proof ends before the script saves anything"),
    NotChecked("labels-decode", "only the script's tokenizer can decode a label"),
)


def judge_proof(evidence: Evidence) -> ProofReport:
    """Return the report.

    Each check has a finding (info if it passed) or a reason why it was not run.
    """
    results = tuple(_results(evidence))
    first = evidence.first
    seconds, run_steps = checks_device.step_seconds(evidence), evidence.request.run_steps
    return ProofReport(
        findings=tuple(result for result in results if isinstance(result, Finding)),
        unseen=tuple(result for result in results if isinstance(result, NotChecked)),
        dtypes=_dtypes(evidence),
        steps=tuple(summarize_step(step) for step in evidence.steps),
        device=first.model.device.name,
        ranks=len(evidence.ranks),
        attention=tuple(call.backend for call in first.attention.calls),
        step_seconds=seconds,
        eta_s=seconds * run_steps if seconds is not None and run_steps else None,
        peak_bytes=checks_device.peak_bytes(evidence),
        total_bytes=first.model.device.total_bytes,
        wall_s=evidence.wall_s,
        exit=evidence.exit,
        output_tail=evidence.output_tail,
        origins=tuple(find_origins(evidence)),
        memory=evidence.memory.describe() if evidence.memory is not None else "",
        hooked_torch=any(one.hooked and one.torch for one in evidence.pythons),
        hooked_torchrun=any(one.hooked and launcher_at(one.command.split()) >= 0 for one in evidence.pythons),
    )


def _results(evidence: Evidence) -> Iterator[Result]:
    yield from checks_outcome.judge(evidence)
    yield from checks_runtime.judge(evidence)
    if not evidence.ranks:
        yield NotChecked("process-reports", "no process of the command trained a model under the hooks")
        return
    for checks in CHECKS:
        yield from without_unfounded(evidence, checks.judge(evidence))
    yield from NEVER_CHECKED


def summarize_step(step: Step) -> ProvedStep:
    """Return the step for the report.

    A loss or norm that is not finite becomes None, since JSON cannot represent it.
    """
    return ProvedStep(
        applied=step.applied,
        seconds=step.seconds,
        loss=_finite(sum(step.losses)) if step.losses else None,
        grad_norm=_finite(step.grad_norm),
        scale=step.loss_scale,
        learning_rate=step.learning_rate,
    )


def _finite(value: Optional[float]) -> Optional[float]:
    return value if value is not None and math.isfinite(value) else None


def _dtypes(evidence: Evidence) -> Tuple[DtypeRow, ...]:
    rows = (*evidence.first.model.dtypes, *evidence.first.trained.optimizer_state)
    return tuple(DtypeRow(row.kind, row.dtype, row.tensors, row.elements, row.bytes, row.examples) for row in rows)
