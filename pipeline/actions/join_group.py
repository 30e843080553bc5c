"""The state of a run on several hosts, which another project may have started, for example from a second laptop."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.actions.run import no_such_run
from pipeline.actions.session import refresh_view
from pipeline.records.run_inputs import write_inputs
from pipeline.records.runs import write_note
from pipeline.runs.group_checks import GroupState, judge_group_state
from pipeline.runs.new_run import inputs_of
from pipeline.runs.run_id import folder_of, name_of, run_id, run_of
from pipeline.runs.start import note_of
from pipeline.stages.stage import Context
from remote.errors import Busy
from remote.operations.jobs import adopt_if_orphaned, join_run
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command


def join_runs(contexts: Sequence[Context]) -> bool:
    """Add the run to the project on each host on which only another project has it. Return True if one was added.

    An added run is also recorded locally, so that verbs find it by its name.
    """
    new = [context for context in contexts if run_of(context.view) is None]
    joined = [context for context in new if join_run(context.host, context.view.layout.key, run_id(context.view))]
    for context in joined:
        refresh_view(context)
    for context in contexts if joined else ():
        write_note(context.view.records, note_of(context.view, run_id(context.view)))
        write_inputs(folder_of(context.view), inputs_of(context.view))
    return bool(joined)


def group_state(contexts: Sequence[Context], resume: str) -> GroupState:
    """Restart the supervisors that have died, and return the state of the run on all hosts.

    The proof may have taken minutes: before a job counts as one that waits for a failed job, the hosts are surveyed
    again, because another command may have started the run's next job.
    """
    for context in contexts:
        run = run_of(context.view)
        if resume and run is None:
            raise no_such_run(context.view.host.name, resume)
        if adopt_if_orphaned(context.host, context.view.layout.key, run):
            refresh_view(context)
    state = judge_group_state([run_of(context.view) for context in contexts])
    if state is not GroupState.BROKEN:
        return state
    for context in contexts:
        refresh_view(context)
    return judge_group_state([run_of(context.view) for context in contexts])


def refuse_unless_own(contexts: Sequence[Context], state: GroupState, *, joined: bool) -> None:
    """Raise Busy if a job runs that another command may be starting or ending."""
    running = [one for one in contexts if (run := run_of(one.view)) is not None and run.state is JobState.RUNNING]
    if not running or not (state is GroupState.STARTING or (joined and state is GroupState.BROKEN)):
        return
    first = running[0].view
    others = ", ".join(one.view.host.name for one in contexts if one not in running)
    names, run = ", ".join(one.view.host.name for one in running), run_of(first)
    number = run.job if run is not None else 0
    raise Busy(
        f"job {number} of {run_id(first)} runs on {names}, but not on {others}: another command may be starting or "
        "ending the run",
        where=first.host.name,
        hint=shell_command("pipeline stop {}   (if no other command is at work)", name_of(first)),
    )
