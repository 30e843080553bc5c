"""Encode an outcome as the JSON object that `--json` prints."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Any

from pipeline.messages.outcome import JobOutcome, Outcome, StageOutcome
from remote.protocol.findings import Finding
from remote.protocol.values import encode

PROTOCOL = 1


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return the object described in docs/json.md."""
    fields: dict[str, Any] = {
        "protocol": PROTOCOL,
        "command": outcome.command,
        "ok": outcome.ok,
        "exit_code": int(outcome.exit_code),
    }
    if outcome.varied:
        fields["set"] = list(outcome.varied)
    for name in ("host", "config", "run"):
        if value := getattr(outcome, name):
            fields[name] = value
    if outcome.stages:
        fields["stages"] = [_stage(stage) for stage in outcome.stages]
    fields["findings"] = [_finding(finding) for finding in outcome.shown_findings]
    if outcome.job is not None:
        fields["job"] = job_to_json(outcome.job)
    if outcome.artifacts:
        fields["artifacts"] = dict(outcome.artifacts)
    return {name: _finite(value) for name, value in {**fields, **outcome.more}.items()}


def _finite(value: Any) -> Any:
    """Return the value with None in place of NaN and infinities, which JSON cannot represent."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, (list, tuple)) else value


def rows_to_json(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return one object for each run of a command, without the fields that are equal in all objects."""
    return [_without(outcome_to_json(outcome), ("protocol", "command")) for outcome in outcomes]


def _without(fields: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _stage(stage: StageOutcome) -> dict[str, Any]:
    return {
        "name": stage.name,
        "state": stage.state.value,
        "seconds": round(stage.seconds, 3),
        "reason": stage.reason,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "severity": finding.severity.value,
        "message": finding.message,
        "where": finding.where,
        "hint": finding.hint,
    }


def job_to_json(job: JobOutcome) -> dict[str, Any]:
    """Return the object `job`. Unknown values are omitted."""
    fields = {
        "step": job.step,
        "steps": job.steps,
        "exit": job.exit,
        "loss": job.loss,
        "best_loss": job.best_loss,
        "started_unix": job.started_unix,
        "elapsed_s": _rounded(job.elapsed_s),
        "eta_s": _rounded(job.eta_s),
        "step_s": _rounded(job.step_s),
        "gpus": [_known(encode(gpu)) for gpu in job.gpus] or None,
        "age_s": job.age_s,
        "waits": job.waits or None,
    }
    return {"state": job.shown_state, **_known(fields)}


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if _finite(value) is not None}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
