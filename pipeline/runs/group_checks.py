"""Check whether several hosts can train one run together, and judge the state of their jobs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from pipeline.records.inputs import digest
from pipeline.runs.group import Group
from pipeline.runs.launcher import process_count, script_of
from pipeline.runs.run_id import training_settings, work_inputs
from pipeline.runs.trained_files import trained_files_digest
from pipeline.runs.view import View
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.jobs import JobState, RunSurvey

TRAINER_PACKAGES = ("transformers", "peft", "accelerate")


def group_of(views: Sequence[View]) -> Group:
    """Return the group of these hosts. The digest of the work does not depend on the order of the hosts."""
    work = digest({str(number): one for number, one in enumerate(sorted(digest(dict(work_inputs(v))) for v in views))})
    processes = sum(process_count(view.config, view.host.config) for view in views)
    return Group(tuple(view.host.name for view in views), work, processes)


def judge_group(views: Sequence[View]) -> Report:
    """Return the reasons why the hosts cannot train together: two hosts share a folder, or their inputs differ."""
    return Report((*_shared_folders(views), *_differences(views), *_launchers(views)))


def _shared_folders(views: Sequence[View]) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    for view in views:
        machine = view.survey.machine
        place = (machine.machine_id or machine.hostname, view.workdir)
        if place in seen:
            message = f"{seen[place]} and {view.host.name} are the same machine with the same workdir, {view.workdir}"
            yield _finding(message, "host.workdir", "remove one of these hosts, or set another `workdir:` for it")
        seen.setdefault(place, view.host.name)


def _differences(views: Sequence[View]) -> Iterator[Finding]:
    compared: dict[str, tuple[Callable[[View], str], str]] = {
        "torch": (_torch, "install the same version of torch on all of them"),
        "precision": (lambda view: view.precision.mode.value, "set `precision:` to a mode that every card supports"),
        "files": (trained_files_digest, "use hosts with cards of the same compute capability"),
        "settings": (lambda view: digest(training_settings(view.config)), "train on one host at a time"),
        **{name: (_package(name), f"install the same version of {name} on all of them") for name in TRAINER_PACKAGES},
    }
    for what, (fact, hint) in compared.items():
        facts = [fact(view) for view in views]
        if len(set(facts)) > 1:
            short = all(len(one) < 40 for one in facts)
            shown = [f"{view.host.name} has {one}" for view, one in zip(views, facts, strict=True)]
            message = f"{what}: {', '.join(shown)}" if short else f"{what} differ between the hosts"
            yield _finding(message, what, hint)


def _torch(view: View) -> str:
    return view.survey.interpreter.torch.version if view.survey.interpreter.torch else "none"


def _package(name: str) -> Callable[[View], str]:
    return lambda view: view.survey.interpreter.packages.get(name, "none") if view.config.command is None else ""


def _launchers(views: Sequence[View]) -> Iterator[Finding]:
    command = views[0].config.command
    if command is not None and script_of(command) is None:
        message = f"{command[0]} would start its processes on each host separately"
        yield _finding(
            message, "command", "name the script: `command: python script.py`; torchrun starts it on each host"
        )


def _finding(message: str, where: str, hint: str) -> Finding:
    return Finding.error("hosts-differ", message, where, hint, ExitCode.ENVIRONMENT)


class GroupState(Enum):
    """The state of a run on all hosts.

    DONE: every job succeeded. RUNNING: every job runs or has succeeded. BROKEN: a job still runs, but the job of
    another host has ended without success. STARTING: a job runs, but another host does not have the job with the same
    number, because a command is starting the jobs or was ended while it did so. OPEN: no job runs.
    """

    DONE = "done"
    RUNNING = "running"
    BROKEN = "broken"
    STARTING = "starting"
    OPEN = "open"


def judge_group_state(runs: Sequence[RunSurvey | None]) -> GroupState:
    """Judge the run from its state on each host. One host may finish before the others."""
    states = [run.state if run is not None else JobState.ABSENT for run in runs]
    if all(state is JobState.SUCCEEDED for state in states):
        return GroupState.DONE
    if JobState.RUNNING not in states:
        return GroupState.OPEN
    if JobState.ABSENT in states or len({run.job for run in runs if run is not None}) > 1:
        return GroupState.STARTING
    whole = all(state in (JobState.RUNNING, JobState.SUCCEEDED) for state in states)
    return GroupState.RUNNING if whole else GroupState.BROKEN


def common_step(runs: Sequence[RunSurvey | None]) -> int | None:
    """Return the newest step for which every host has a verified checkpoint.

    Returns None if no host has a checkpoint, and 0 if the hosts have no checkpoint of a common step.
    """
    steps = [set(verified_checkpoints(run)) for run in runs]
    if not any(run is not None and run.checkpoints for run in runs):
        return None
    return max(set.intersection(*steps), default=0)


def judge_resume(runs: Sequence[RunSurvey | None], views: Sequence[View]) -> Finding | None:
    """Return a finding if there are checkpoints, but no step with a verified checkpoint on every host.

    Return None otherwise.
    """
    if common_step(runs) != 0:
        return None
    held = (
        f"{view.host.name} has {', '.join(str(step) for step in sorted(verified_checkpoints(run))) or 'none'}"
        for view, run in zip(views, runs, strict=True)
    )
    message = f"cannot resume, because the hosts have no checkpoint of a common step: {'; '.join(held)}"
    hint = "pipeline run --force train   (starts again at step 0 as a new run; the checkpoints are kept)"
    return Finding.error("checkpoint", message, "checkpoints", hint, ExitCode.CHECKPOINT)


def verified_checkpoints(run: RunSurvey | None) -> dict[int, str]:
    """Return the names of a host's verified checkpoints, by step."""
    return {one.step: one.name for one in run.checkpoints if not one.problem} if run is not None else {}
