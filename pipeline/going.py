"""`run`: every stage of one project on one host, under a lock, with what is to be said about it at the end."""

from __future__ import annotations

from pipeline.afar import job_from_host, remember
from pipeline.healing import run_and_heal
from pipeline.memory import Memory
from pipeline.outcome import JobOutcome, Outcome
from pipeline.reporting import jobs_of, keep_report, report_of
from pipeline.runs import artifacts_of
from pipeline.session import Named, alone, working
from pipeline.stages.command import require_secrets
from pipeline.stages.order import STAGES
from pipeline.stages.runner import Ran
from pipeline.stages.stage import Context, Wishes
from pipeline.stages.which_run import run_id, run_of
from pipeline.story import read_story, write_story
from pipeline.telling import Telling
from remote.ask import Ask
from remote.errors import HalfstepError
from remote.jobs import list_jobs
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState, RunSurvey, StartAnswer
from remote.pull.live import mirrored_scalars

LOSS_TAGS = ("train/loss", "loss", "Loss/train", "train_loss")


def go(named: Named, telling: Telling, wishes: Wishes, *, ask: Ask | None = None) -> Outcome:
    """Everything is as the config wants it, or the outcome says which stage failed and what to type."""
    memory = Memory(named.loaded.root)
    require_secrets(named.host.config, named.loaded.config)
    with (
        alone(named, f"run {named.loaded.name} on {named.host.name}"),
        working(named, telling, wishes, ask=ask) as context,
    ):
        telling.heading(f"{named.loaded.name} on {named.host.name}")
        for cure in context.view.cures:
            telling.note(f"as healed before: {cure.words}")
        record = memory.checkpoints(named.host.name, named.loaded.name)
        kept = memory.story(named.host.name, named.loaded.name)
        context.story = read_story(kept)
        ran = run_and_heal(context, STAGES, record)
        if ran.acted:
            write_story(kept, context.story)
            report(context, ran)
        outcome = outcome_of(context, ran)
        telling.curve("loss", loss_of(memory, outcome.run))
    if not ran.acted and ran.exit_code is ExitCode.OK:
        telling.note("nothing to do")
    return outcome


def report(context: Context, ran: Ran) -> None:
    """The run, if there is one by now, has its page."""
    view = context.view
    run = run_of(view)
    if run is not None and run.state is not JobState.ABSENT:
        jobs = jobs_of(run, earlier_jobs(context, run))
        told = report_of(view, run, jobs, context.story, tuple(ran.stages), tuple(ran.findings))
        keep_report(view.memory.run(run.run), told)


def earlier_jobs(context: Context, run: RunSurvey) -> tuple[StartAnswer, ...]:
    """The jobs before the newest, if there are any and the host still answers."""
    if run.job < 2:
        return ()
    try:
        return list_jobs(context.host, context.view.layout.key, run.run)
    except HalfstepError:
        return ()


def outcome_of(context: Context, ran: Ran) -> Outcome:
    """What a run of the stages came to."""
    view = context.view
    run = run_of(view)
    if run is not None:
        remember(view.memory, run)
    return Outcome(
        "run",
        ran.exit_code,
        host=view.host.name,
        config=view.loaded.name,
        run=run_id(view) if run is not None else "",
        stages=tuple(ran.stages),
        findings=tuple(ran.findings),
        job=job_from_host(run) if run is not None else JobOutcome(JobState.ABSENT),
        artifacts=artifacts_of(view.memory, run_id(view)),
        more={"cures": [cure.name for cure in view.cures]} if view.cures else {},
    )


def loss_of(memory: Memory, run: str) -> list[float]:
    """The training loss by step as far as it is here."""
    if not run:
        return []
    scalars = [scalar for scalar in mirrored_scalars(memory.run(run)) if scalar.tag in LOSS_TAGS]
    return [scalar.value for scalar in sorted(scalars, key=lambda scalar: scalar.step)]
