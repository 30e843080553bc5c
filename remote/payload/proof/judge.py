"""From what the hooks saw to findings: every row of the proof, the rows that could not be seen, and the numbers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from remote.payload.proof import (
    rows_batch,
    rows_device,
    rows_dtypes,
    rows_loss,
    rows_order,
    rows_outcome,
    rows_scale,
    rows_steps,
)
from remote.payload.proof.seen import Row, Seen
from remote.protocol.findings import Finding
from remote.protocol.proof import DtypeRow, NotChecked, ProofReport, StepSeen

NEVER_SEEN = (
    NotChecked(
        "loss-agreement", "needs the same batch in float32 beside float16; the card step compares a small model"
    ),
    NotChecked("padding-agreement", "needs the same batch with and without padding, which only the script could make"),
    NotChecked("tiny-overfit", "takes 20 steps on four samples; the card step does it with a small model"),
    NotChecked("resume-probe", "the proof ends before the script saves anything"),
    NotChecked("labels-decode", "which text a label stands for is known to the script's tokenizer alone"),
)


def judge_proof(seen: Seen) -> ProofReport:
    """The report over one proof. A check is either a finding (info: seen, and well) or unseen with its reason."""
    rows: List[Row] = list(rows_outcome.judge(seen))
    if seen.ranks:
        for part in (rows_dtypes, rows_scale, rows_loss, rows_steps, rows_order, rows_batch, rows_device):
            rows.extend(part.judge(seen))
        rows.extend(NEVER_SEEN)
    else:
        rows.append(NotChecked("everything", "no process of the command trained a model under the hooks"))
    seconds = step_seconds(seen)
    device = seen.first.get("device", {})
    return ProofReport(
        findings=tuple(row for row in rows if isinstance(row, Finding)),
        unseen=tuple(row for row in rows if isinstance(row, NotChecked)),
        dtypes=_dtypes(seen),
        steps=tuple(step_seen(row) for row in seen.attempts),
        device=f"{device.get('name', '')}",
        ranks=len(seen.ranks),
        attention=tuple(kind["backend"] for kind in seen.first.get("attention", {}).get("kinds", [])),
        largest_outputs=tuple((name, value) for name, value in seen.first.get("modules", {}).get("largest", [])),
        step_seconds=seconds,
        eta_s=seconds * seen.request.run_steps if seconds is not None and seen.request.run_steps else None,
        peak_bytes=rows_device.peak_bytes(seen),
        total_bytes=device.get("total_bytes"),
        settled_scale=next((row["scale_after"] for row in reversed(seen.attempts) if row.get("scale_after")), None),
        wall_s=seen.wall_s,
        exit=seen.exit,
        output_tail=seen.output_tail,
    )


def step_seconds(seen: Seen) -> Optional[float]:
    """The time of the fastest step after the first, which warms up; None where there was only one."""
    times = [row["seconds"] for row in seen.attempts[1:]]
    return min(times) if times else None


def step_seen(row: Dict[str, Any]) -> StepSeen:
    """One attempt as the hooks wrote it; a loss or norm that is not finite is left out, for JSON has no such number."""
    losses = row["losses"]
    return StepSeen(
        applied=row["applied"],
        seconds=row["seconds"],
        loss=_finite(sum(losses)) if losses else None,
        grad_norm=_finite(row["grad_norm"]),
        scale=row["scale"],
        learning_rate=row["lr"],
    )


def _finite(value: Optional[float]) -> Optional[float]:
    return value if value is not None and value - value == 0 else None


def _dtypes(seen: Seen) -> Tuple[DtypeRow, ...]:
    rows = [*seen.first.get("dtypes", []), *seen.first.get("optimizer_state", [])]
    return tuple(
        DtypeRow(row["kind"], row["dtype"], row["tensors"], row["elements"], row["bytes"], tuple(row["examples"]))
        for row in rows
    )
