"""Further facts about a job (best loss, times, GPUs) as labelled lines."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.messages.outcome import JobOutcome
from pipeline.show.spark import sparkline
from pipeline.show.training import clock, gpu_parts
from remote.protocol.loss import loss_text
from remote.protocol.quantities import moment


def job_details(job: JobOutcome, *, bars: bool) -> Iterator[tuple[str, str]]:
    """Yield (label, value) for the known values among best loss, times and GPUs."""
    best = f"best {loss_text(job.best_loss)}" if job.best_loss is not None else ""
    curve = sparkline(job.losses) if bars and len(job.losses) > 1 else ""
    if best or curve:
        yield "mean loss", "  ".join(filter(None, (best, curve)))
    if times := ", ".join(_times(job)):
        yield "time", times
    for gpu in job.gpus:
        yield f"GPU {gpu.index}", ", ".join(gpu_parts(gpu))


def _times(job: JobOutcome) -> Iterator[str]:
    if job.started_unix is not None:
        yield f"started {moment(job.started_unix)}"
    if job.elapsed_s is not None:
        earlier = f" ({clock(job.earlier_s)} in earlier jobs)" if job.earlier_s >= 1 else ""
        yield f"elapsed {clock(job.elapsed_s)}{earlier}"
    if job.eta_s:
        yield f"ETA {clock(job.eta_s)}"
    if job.step_s is not None:
        yield f"{job.step_s:.3g} s/step"
