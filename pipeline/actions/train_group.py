"""Start one training run on several hosts, follow it until it ends, and stop the other jobs after a failure."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from pipeline.actions.session import refresh_view
from pipeline.hosts.follow import follow_to_end
from pipeline.hosts.rendezvous import Rendezvous, find_rendezvous
from pipeline.judgements.job import is_repeated
from pipeline.messages.listener import Listener, NullListener
from pipeline.records.inputs import digest
from pipeline.records.last_seen import note_job
from pipeline.records.run_inputs import write_inputs
from pipeline.records.runs import write_start
from pipeline.runs.group import Node
from pipeline.runs.group_checks import common_step, judge_resume, verified_checkpoints
from pipeline.runs.new_run import inputs_of
from pipeline.runs.run_id import folder_of, name_of, run_id, run_of, work_inputs
from pipeline.runs.start import next_number, note_of, start_request
from pipeline.stages.new_run import has_other_inputs
from pipeline.stages.stage import Context
from remote.errors import Busy, HalfstepError, RemoteFault
from remote.operations.jobs import prepare_resume, start_job, stop_job
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.jobs import JobNews, JobState, StartAnswer, Started
from remote.protocol.quantities import duration
from remote.protocol.shell import shell_command

OTHERS_S = 60.0
"""The seconds between the failure of a job and the stop of the jobs on the other hosts."""


@dataclass(frozen=True)
class JobEnd:
    """The end of a host's job: the job's last event, or the exception that was raised while the job was followed.

    `at` is the index of the host.
    """

    at: int
    news: JobNews | None
    error: BaseException | None = None

    @property
    def ended_well(self) -> bool:
        return self.news is not None and self.news.state is JobState.SUCCEEDED


def start_on_all(contexts: Sequence[Context]) -> Report:
    """Start the run's next job on every host, or on none; all jobs resume from the same step.

    If a host fails, the jobs that were already started are stopped, and the host's error is raised. Raises Busy if
    another command starts the run at the same time; its jobs keep running.
    """
    resume, problem = _resume_paths(contexts)
    if problem is not None:
        return Report((problem,))
    contexts[0].listener.progress("testing whether the hosts reach each other")
    rendezvous = _rendezvous_of(contexts)
    if rendezvous.findings:
        return Report(rendezvous.findings)
    number = max(next_number(run_of(context.view)) for context in contexts)
    fresh_code = [_record_start(context) for context in contexts]
    # Verbs without a run name use the run that was recorded last. The first host's run is therefore recorded last.
    _record_start(contexts[0])
    started: list[Context] = []
    answers: list[StartAnswer] = []
    order = _start_order(contexts)
    for at in order:
        node = _node(contexts, rendezvous, order[0], at, number)
        with _stopped_on_error(started, contexts[at]):
            answer = _start_on(contexts[at], node, number, resume[at], fresh_code=fresh_code[at])
            _require_fresh(contexts[at], answer, answers)
        started.append(contexts[at])
        answers.append(answer)
    return Report()


def attach_to_all(contexts: Sequence[Context]) -> None:
    """Record the running job of each host, which another project has started, as a run of this project."""
    for context in (*contexts, contexts[0]):  # The first host's run is recorded last.
        _record_start(context)
        run = run_of(context.view)
        assert run is not None
        note_job(folder_of(context.view), run.state, None, run.result, number=run.job)
    contexts[0].listener.note(f"attaching to {name_of(contexts[0].view)}, which another project folder has started")


def _start_order(contexts: Sequence[Context]) -> list[int]:
    """Return the indexes of the hosts in an order that does not depend on `--host`.

    Two commands that start the same run at the same time meet at the same host first, so that one of them starts all
    jobs. torchrun's store is on that host, so that no job has to wait for it.
    """
    return sorted(range(len(contexts)), key=lambda at: digest(dict(work_inputs(contexts[at].view))))


def _require_fresh(context: Context, answer: StartAnswer, others: Sequence[StartAnswer]) -> None:
    """Raise RemoteFault or Busy for a job that the command has not started: that of another host, or another command.

    `others`: the jobs that the command has started on other hosts.
    """
    view = context.view
    if answer.fresh:
        return
    if any(_is_same_process(answer.started, other.started) for other in others):
        message = f"{view.host.name} has the job of another host: both hosts share the folder {view.workdir}"
        hint = f"set another `workdir:` in the file of {view.host.name}"
        raise RemoteFault(message, kind="hosts-differ", where="host.workdir", hint=hint, exit_code=ExitCode.ENVIRONMENT)
    message = f"another command has just started job {answer.number} of {answer.run} on {view.host.name}"
    raise Busy(message, where=view.host.name, hint="pipeline run   (in a minute; it attaches to that job)")


def _is_same_process(one: Started | None, other: Started | None) -> bool:
    if one is None or other is None:
        return False
    return (one.boot_id, one.pid, one.start_ticks) == (other.boot_id, other.pid, other.start_ticks)


@contextlib.contextmanager
def _stopped_on_error(started: Sequence[Context], context: Context) -> Iterator[None]:
    """Stop the jobs that the command has started if the start on this host fails. Other jobs are not stopped.

    If the outcome of the start is unknown, such as after Ctrl-C, this host's job is stopped only if the command has
    started the first job, because only then it cannot be the job of another command.
    """
    try:
        yield
    except BaseException as error:
        is_known = isinstance(error, HalfstepError) and error.exit_code is ExitCode.BUSY
        if started or is_known:
            _stop(started if is_known else [*started, context])
        else:
            name = name_of(context.view)
            context.listener.note(f"{name} may have started; to stop it: {shell_command('pipeline stop {}', name)}")
        raise


def _resume_paths(contexts: Sequence[Context]) -> tuple[list[str], Finding | None]:
    """Return the path of the checkpoint on each host, and a finding if the hosts cannot resume, else None.

    The path "" starts at step 0.
    """
    roots = [""] * len(contexts)
    for at, context in enumerate(contexts):
        run = run_of(context.view)
        if run is not None and run.checkpoints:
            point = prepare_resume(context.host, context.view.layout.key, run.run)
            roots[at] = point.path.removesuffix(point.checkpoint.name)
            refresh_view(context)
    runs = [run_of(context.view) for context in contexts]
    step = common_step(runs)
    if step is None:
        return roots, None
    problem = judge_resume(runs, [context.view for context in contexts])
    if problem is not None:
        return roots, problem
    names = [verified_checkpoints(run)[step] for run in runs]
    contexts[0].listener.note(f"resuming {name_of(contexts[0].view)} from step {step} on all hosts")
    return [root + name for root, name in zip(roots, names, strict=True)], None


def _rendezvous_of(contexts: Sequence[Context]) -> Rendezvous:
    views = [context.view for context in contexts]
    return find_rendezvous(
        [(view.host.name, one.host, view.host.config.address or "") for one, view in zip(contexts, views, strict=True)]
    )


def _node(contexts: Sequence[Context], rendezvous: Rendezvous, store: int, at: int, number: int) -> Node:
    first, own = rendezvous.places[store], rendezvous.places[at]
    job = f"{run_id(contexts[0].view)}-{number}"
    return Node(job, f"{first.address}:{first.port}", at == store, own.address, own.interface)


def _record_start(context: Context) -> bool:
    """Record that the run is started. Return True if the run needs a new copy of the project's files."""
    view = context.view
    fresh_code = has_other_inputs(view)
    write_start(view.records, note_of(view, run_id(view)))
    write_inputs(folder_of(view), inputs_of(view))
    return fresh_code


def _start_on(context: Context, node: Node, number: int, resume: str, *, fresh_code: bool) -> StartAnswer:
    view = context.view
    assert view.group is not None
    run, folder = run_id(view), folder_of(view)
    joining = replace(view, group=replace(view.group, node=node))
    started = start_job(context.host, start_request(joining, run, number, resume, fresh_code=fresh_code))
    note_job(folder, started.state, None, started.result)
    for note in started.notes:
        context.listener.note(note)
    return started


def stop_running(contexts: Sequence[Context]) -> None:
    """Stop the jobs that still run after the job of another host has failed. The training needs all hosts."""
    running = [one for one in contexts if (run := run_of(one.view)) is not None and run.state is JobState.RUNNING]
    for context in running:
        name = context.view.host.name
        context.listener.note(f"stopping the job on {name}, because the job on another host has ended")
    _stop(running)
    for context in running:
        refresh_view(context)


def _stop(contexts: Sequence[Context]) -> None:
    """Stop the job of each host that has a job. Unreachable hosts are skipped."""
    for context in contexts:
        try:
            stop_job(context.host, context.view.layout.key, run_id(context.view))
        except HalfstepError as error:
            context.listener.note(f"{context.view.host.name}: {error.message}")


def _stop_job_number(number: int, contexts: Sequence[Context]) -> None:
    """Stop this job on each host, but not a later job that another command has started. 0 means the newest job."""
    for context in contexts:
        try:
            refresh_view(context)
        except HalfstepError as error:
            context.listener.note(f"{context.view.host.name}: {error.message}")
            continue
        if (run := run_of(context.view)) is not None and number in (0, run.job):
            _stop([context])


def follow_all(contexts: Sequence[Context], listener: Listener) -> tuple[JobEnd, ...]:
    """Follow the jobs of all hosts, and return the end of each, the earliest first.

    The first host's progress is shown. After a failure, the jobs on the other hosts are stopped if they do not end by
    themselves. On KeyboardInterrupt, which is raised again, the jobs keep running.
    """
    ends: queue.SimpleQueue[JobEnd] = queue.SimpleQueue()
    for at, context in enumerate(contexts):
        shown = listener if at == 0 else NullListener()
        threading.Thread(target=_follow, args=(at, context, shown, ends), daemon=True).start()
    seen: list[JobEnd] = []
    deadline, failed = float("inf"), 0
    while len(seen) < len(contexts):
        try:
            end = ends.get(timeout=1.0)
        except queue.Empty:
            if time.monotonic() > deadline:
                deadline = float("inf")
                ended = {end.at for end in seen}
                _stop_job_number(failed, [one for at, one in enumerate(contexts) if at not in ended])
            continue
        seen.append(end)
        # A lost connection does not mean that the job has failed.
        if end.error is None and not end.ended_well and deadline == float("inf") and len(seen) < len(contexts):
            deadline = time.monotonic() + OTHERS_S
            failed = end.news.number if end.news is not None else 0
            name = contexts[end.at].view.host.name
            listener.note(f"the job on {name} has failed; the other jobs have {duration(OTHERS_S)} to end")
    return tuple(seen)


def _follow(at: int, context: Context, listener: Listener, ends: queue.SimpleQueue[JobEnd]) -> None:
    view = context.view
    try:
        is_known = partial(is_repeated, tuple(context.findings))
        news = follow_to_end(context.host, view.layout.key, run_id(view), listener, is_known=is_known)
    except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
        ends.put(JobEnd(at, None, error))
        return
    ends.put(JobEnd(at, news))
