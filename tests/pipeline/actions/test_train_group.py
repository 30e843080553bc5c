"""One job on each of two hosts: started on both or on neither, followed until both end, and ended together.

The interpreter is a script that waits, in place of torchrun.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.actions import train_group
from pipeline.actions.join_group import group_state, join_runs, refuse_unless_own
from pipeline.actions.run_group import run_on_all
from pipeline.actions.train_group import attach_to_all, follow_all, start_on_all, stop_running
from pipeline.config.hosts import load_host
from pipeline.hosts.connection import survey_host
from pipeline.records.layout import Records
from pipeline.records.runs import list_notes
from pipeline.runs.group_checks import GroupState, group_of, judge_group_state
from pipeline.runs.run_id import run_id, run_of
from pipeline.runs.selection import load_selection
from pipeline.runs.start import start_request
from pipeline.stages.stage import Context, RunOptions
from remote.errors import BadUsage, Busy, RemoteFault
from remote.link.local import local_host
from remote.operations.jobs import start_job
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState
from tests.lab.payload import install_payload
from tests.lab.processes import processes_of
from tests.lab.wait import until
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import view_of

TORCHRUN = """#!/bin/sh
[ -n "$HALFSTEP_RUN_DIR" ] || exit 1
echo "$@" > "$HALFSTEP_RUN_DIR/argv"
while [ ! -e "$HALFSTEP_RUN_DIR/end" ]; do sleep 0.05; done
exit $(cat "$HALFSTEP_RUN_DIR/end")
"""


class NoteListener(NoListener):
    """A listener that records notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str, command: str = "") -> None:
        self.notes.append(text)


@pytest.fixture
def contexts(tmp_path: Path) -> Iterator[list[Context]]:
    """Two hosts on this machine, a and b, each with a workdir of its own."""
    made = contexts_in(tmp_path, ("a", "b"))
    yield made
    for context in made:
        run = Path(context.host.workdir)
        for end in run.glob("projects/*/runs/*"):
            (end / "end").write_text("0")
        until(lambda run=run: not processes_of(run / "projects"), "the end of all jobs")
        context.host.close()


def contexts_in(root: Path, workdirs: tuple[str, str]) -> list[Context]:
    python = root / "python"
    python.write_text(TORCHRUN)
    python.chmod(0o755)
    view = view_of(root / "project", None)
    for workdir in set(workdirs):
        install_payload(root / workdir)
    made = []
    for name, workdir in zip("ab", workdirs, strict=True):
        host = load_host("local", root, [f"host.python={python}", "host.address=127.0.0.1"])
        interpreter = replace(view.survey.interpreter, path=str(python))
        own = replace(
            view,
            host=replace(host, name=name),
            workdir=str(root / workdir),
            survey=replace(view.survey, interpreter=interpreter),
        )
        made.append(Context(local_host(str(root / workdir), name=name), own, NoteListener()))
    group = group_of([one.view for one in made])
    for context in made:
        context.view = replace(context.view, group=group)
    return made


def folder_of_run(context: Context) -> Path:
    return Path(context.host.workdir) / context.view.layout.run(run_id(context.view)).root


def end(context: Context, status: int) -> None:
    (folder_of_run(context) / "end").write_text(str(status))


def argv_of(context: Context) -> list[str]:
    path = folder_of_run(context) / "argv"
    return path.read_text().split() if path.exists() else []


def look(contexts: list[Context]) -> list[JobState]:
    for context in contexts:
        view = context.view
        context.view = view.with_survey(survey_host(context.host, view.host, view.layout.key))
    return [run.state if (run := run_of(context.view)) else JobState.ABSENT for context in contexts]


def test_both_jobs_meet_at_one_endpoint_and_are_followed_to_both_ends(contexts: list[Context]) -> None:
    assert start_on_all(contexts).ok
    argvs = [until(lambda c=context: argv_of(c), "torchrun") for context in contexts]
    for flag in ("--rdzv-endpoint", "--rdzv-id", "--nnodes"):
        first, second = (argv[argv.index(flag) + 1] for argv in argvs)
        assert first == second
    hosts_the_store = [argv[argv.index("--rdzv-conf") + 1].split(",")[0] for argv in argvs]
    assert hosts_the_store == ["is_host=1", "is_host=0"]
    for context in contexts:
        end(context, 0)
    ends = follow_all(contexts, NoListener())
    assert {(one.at, one.ended_well) for one in ends} == {(0, True), (1, True)}
    assert look(contexts) == [JobState.SUCCEEDED] * 2


def test_the_other_job_is_ended_after_a_failure(contexts: list[Context], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_group, "OTHERS_S", 0.1)
    assert start_on_all(contexts).ok
    end(contexts[1], 3)
    listener = NoteListener()
    ends = follow_all(contexts, listener)
    assert [(one.at, one.ended_well) for one in ends] == [(1, False), (0, False)]
    assert look(contexts) == [JobState.STOPPED, JobState.FAILED]
    assert listener.notes[0].startswith("the job on b has failed")


def test_a_job_that_continues_alone_is_ended_before_the_next_start_of_the_group(contexts: list[Context]) -> None:
    assert start_on_all(contexts).ok
    end(contexts[0], 1)
    until(lambda: look(contexts) == [JobState.FAILED, JobState.RUNNING], "the failure on a")
    assert judge_group_state([run_of(context.view) for context in contexts]) is GroupState.BROKEN
    stop_running(contexts)
    assert look(contexts) == [JobState.FAILED, JobState.STOPPED]
    (folder_of_run(contexts[0]) / "end").unlink()
    assert start_on_all(contexts).ok
    assert look(contexts) == [JobState.RUNNING] * 2
    assert {run.job for context in contexts if (run := run_of(context.view))} == {2}


def of_second_laptop(root: Path, contexts: list[Context]) -> list[Context]:
    """The same hosts and work, but another project on each host."""
    made = []
    for context in contexts:
        scan = replace(context.view.scan, project="other-11111111")
        view = replace(context.view, scan=scan, records=Records(root / "second"))
        host = local_host(context.host.workdir, name=context.host.name)
        made.append(Context(host, view.with_survey(survey_host(host, view.host, view.layout.key)), NoteListener()))
    return made


def started_times(contexts: list[Context]) -> list[float]:
    runs = [run_of(context.view) for context in contexts]
    return [run.started.started_unix for run in runs if run is not None and run.started is not None]


def test_SE_20_a_second_laptop_attaches_to_the_jobs_of_all_hosts(contexts: list[Context], tmp_path: Path) -> None:
    other = of_second_laptop(tmp_path, contexts)
    assert start_on_all(contexts).ok
    assert look(contexts) == [JobState.RUNNING] * 2
    assert join_runs(other) and not join_runs(other)
    assert group_state(other, "") is GroupState.RUNNING
    refuse_unless_own(other, GroupState.RUNNING, joined=True)
    attach_to_all(other)
    assert look(other) == [JobState.RUNNING] * 2 and started_times(other) == started_times(contexts)
    assert [note.name for note in list_notes(other[0].view.records)] == [
        run_id(other[0].view),
        f"{run_id(other[0].view)}@b",
    ]
    for context in contexts:
        end(context, 0)
    assert {one.ended_well for one in follow_all(other, NoListener())} == {True}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_SE_20_a_start_of_the_same_run_by_another_command_is_refused_and_its_jobs_live(
    contexts: list[Context], tmp_path: Path, order: tuple[int, int]
) -> None:
    other = [of_second_laptop(tmp_path, contexts)[at] for at in order]
    assert start_on_all(contexts).ok
    with pytest.raises(Busy, match="another command has just started job 1") as refused:
        start_on_all(other)
    assert refused.value.exit_code is ExitCode.BUSY
    assert look(contexts) == [JobState.RUNNING] * 2


def test_only_the_job_that_the_command_has_started_is_stopped_if_another_command_has_the_second_host(
    contexts: list[Context], tmp_path: Path
) -> None:
    first, second = train_group._start_order(contexts)
    elsewhere = of_second_laptop(tmp_path, contexts)[second]
    request = start_request(elsewhere.view, run_id(elsewhere.view), 1, "")
    assert start_job(elsewhere.host, request).fresh
    with pytest.raises(Busy, match=f"on {contexts[second].view.host.name}"):
        start_on_all(contexts)
    states = look(contexts)
    assert (states[first], states[second]) == (JobState.STOPPED, JobState.RUNNING)


def test_the_order_of_the_hosts_in_the_command_does_not_decide_which_host_starts_first(contexts: list[Context]) -> None:
    for context in contexts:
        machine = replace(context.view.survey.machine, machine_id=context.view.host.name)
        context.view = context.view.with_survey(replace(context.view.survey, machine=machine))
    swapped = contexts[::-1]
    first, again = (each[train_group._start_order(each)[0]] for each in (contexts, swapped))
    assert first is again
    assert start_on_all(swapped).ok
    until(lambda: all(argv_of(context) for context in contexts), "torchrun")
    assert [context for context in contexts if "is_host=1" in " ".join(argv_of(context))] == [first]


def test_a_run_that_another_command_is_starting_is_neither_started_nor_stopped(
    contexts: list[Context], tmp_path: Path
) -> None:
    other = of_second_laptop(tmp_path, contexts)
    request = start_request(contexts[0].view, run_id(contexts[0].view), 1, "")
    assert start_job(contexts[0].host, request).fresh
    assert join_runs(other)
    state = group_state(other, "")
    assert state is GroupState.STARTING
    with pytest.raises(Busy, match="runs on a, but not on b") as refused:
        refuse_unless_own(other, state, joined=True)
    assert refused.value.hint.startswith(f"pipeline stop {run_id(other[0].view)} ")
    assert look(contexts) == [JobState.RUNNING, JobState.ABSENT]


def test_the_next_job_of_another_command_is_not_stopped_as_one_that_waits(contexts: list[Context]) -> None:
    assert start_on_all(contexts).ok
    look(contexts)
    train_group._stop_job_number(2, contexts)
    assert look(contexts) == [JobState.RUNNING] * 2
    train_group._stop_job_number(1, contexts)
    assert look(contexts) == [JobState.STOPPED] * 2


def test_hosts_that_share_a_folder_get_no_job(tmp_path: Path) -> None:
    shared = contexts_in(tmp_path, ("same", "same"))
    with pytest.raises(RemoteFault, match="b has the job of another host") as refused:
        start_on_all(shared)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    assert look(shared) == [JobState.STOPPED] * 2
    for context in shared:
        context.host.close()


@pytest.mark.parametrize(("key", "value"), [("scheduler", "slurm"), ("container", "torch")])
def test_a_host_with_a_scheduler_or_a_container_is_refused_by_name(tmp_path: Path, key: str, value: str) -> None:
    view_of(tmp_path, None)
    host = load_selection("local", "plain", (f"host.{key}={value}",), tmp_path)
    with pytest.raises(BadUsage, match=f"local has `{key}:`, which is not supported with several hosts"):
        run_on_all([(host, None), (host, None)], NoListener(), RunOptions())  # type: ignore[list-item]
