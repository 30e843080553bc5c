"""Make the report of one process from what the proof's recorder has recorded so far."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from .autocast import accelerate_only_on_card
from .batch_report import BatchTables
from .device import peak_memory
from .foreign import result_of
from .parts import Parts
from .report import AttentionTables, GradientFlow, Memory, ModuleOutputs, Provenance, RankReport
from .schedules import zero_from
from .tensors import read_losses


def make_report(recorder: Any, base: RankReport) -> RankReport:
    """Return `base` with everything that the ProofRecorder has recorded. Parts that cannot be made are missing."""
    parts = Parts()
    model, trained = recorder.trained.summary(parts)
    roots, optimizers, steps = recorder.trained.roots, recorder.trained.optimizers, recorder.log.steps
    planned = int(os.environ.get("HALFSTEP_STEPS") or 0)
    report = dataclasses.replace(
        base,
        steps=tuple(steps),
        open_losses=parts.make("losses", lambda: read_losses(recorder.losses), ()),
        loss_dtypes=tuple(sorted(recorder.loss_dtypes)),
        has_scaler=recorder.scaler is not None,
        zero_rate_from=parts.make("schedule", lambda: zero_from(recorder.scheduler, len(steps), planned), None),
        model=model,
        trained=trained,
        gradient_flow=parts.make("gradient_flow", recorder.flow.summary, GradientFlow()),
        batches=parts.make("batches", recorder.batches.summary, BatchTables()),
        modules=parts.make("modules", recorder.modules.summary, ModuleOutputs()),
        attention=parts.make("attention", lambda: recorder.attentions.summary(roots), AttentionTables()),
        flags=dataclasses.replace(
            recorder.flags, accelerate_only_on_card=bool(result_of(accelerate_only_on_card, False))
        ),
        memory=parts.make("memory", lambda: peak_memory(model.device), Memory()),
        provenance=parts.make("provenance", lambda: recorder.origins.summary(roots, optimizers), Provenance()),
    )
    return dataclasses.replace(report, faults=(*base.faults, *parts.faults), missing=parts.missing)
