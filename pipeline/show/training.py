"""Format the state of a training job for the live view, for `status`, and as one line for a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remote.protocol.gauges import GpuUse
from remote.protocol.jobs import JobNews, JobState, Progress, seconds_left
from remote.protocol.loss import mean_loss_text
from remote.protocol.quantities import duration, is_time, memory

MOST_GPUS = 4


def describe_news(news: JobNews) -> str:
    """Return 'step 40 of 120, mean loss 1.83'."""
    progress = news.progress
    if progress is None:
        return news.waits or "the job is starting" if news.state is JobState.RUNNING else news.state.value
    loss = f", {mean_loss_text(progress.loss)}" if progress.loss is not None else ""
    slow = f", no new {progress.unit} for a long time" if news.stalled else ""
    return f"{describe_step(progress)}{loss}{slow}"


def describe_step(progress: Progress) -> str:
    """Return 'step 40 of 120', or 'answer 40 of 120' for an evaluation."""
    return f"{progress.unit} {progress.step}" + (f" of {progress.steps}" if progress.steps else "")


def time_parts(progress: Progress | None, elapsed_s: float | None, waited_s: float = 0.0) -> Iterator[str]:
    """Yield elapsed time, remaining time and speed. `waited_s` is the age of `progress` and `elapsed_s` in seconds."""
    if elapsed_s is not None:
        yield f"elapsed {clock(elapsed_s + waited_s)}"
    left = seconds_left(progress)
    if left:
        yield f"ETA {clock(left - waited_s)}"
    pace = (progress.pace_seconds or progress.step_seconds) if progress is not None else None
    if pace:
        yield f"{pace:.3g} s/{progress.unit if progress is not None else 'step'}"
    if progress is not None and progress.tokens_per_second:
        yield f"{progress.tokens_per_second:,.0f} tokens/s"


def scale_parts(progress: Progress) -> Iterator[str]:
    """Yield the loss scale and the number of skipped steps, if the training reports them."""
    if progress.loss_scale is not None:
        yield f"loss scale {progress.loss_scale:g}"
    if progress.loss_scale is not None or progress.skipped_steps:
        yield f"{progress.skipped_steps} skipped"


def gpu_lines(gpus: Sequence[GpuUse]) -> Iterator[str]:
    """Yield one line per GPU. More than MOST_GPUS GPUs are summarised in one line."""
    if len(gpus) > MOST_GPUS:
        yield "  ".join((f"{len(gpus)} GPUs", *_summary(gpus)))
        return
    for gpu in gpus:
        yield "  ".join((f"GPU {gpu.index}", *gpu_parts(gpu)))


def gpu_parts(gpu: GpuUse) -> Iterator[str]:
    """Yield the values that the driver reports among utilisation, memory and temperature."""
    if gpu.utilization_percent is not None:
        yield f"{gpu.utilization_percent:.0f} %"
    if gpu.used_bytes is not None:
        yield memory(gpu.used_bytes) + (f" of {memory(gpu.total_bytes)}" if gpu.total_bytes else "")
    if gpu.temperature_c is not None:
        yield f"{gpu.temperature_c:.0f} C"


def _summary(gpus: Sequence[GpuUse]) -> Iterator[str]:
    loads = [gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None]
    used = [gpu.used_bytes for gpu in gpus if gpu.used_bytes is not None]
    heat = [gpu.temperature_c for gpu in gpus if gpu.temperature_c is not None]
    if loads:
        yield f"{min(loads):.0f} to {max(loads):.0f} %"
    if used:
        yield f"at most {memory(max(used))}"
    if heat:
        yield f"at most {max(heat):.0f} C"


def clock(seconds: float) -> str:
    """Format seconds: 4271 as '1:11:11'."""
    if not is_time(seconds):
        return "?"
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def describe_age(seconds: float) -> str:
    """Return 'last update 35 s ago'."""
    return f"last update {duration(seconds)} ago"


def fold(parts: Iterable[str], width: int) -> list[str]:
    """Join the parts with two spaces into lines of at most `width` columns. No part is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines
