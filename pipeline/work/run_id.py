"""Which run a project, host and config mean: the same work always has the same id."""

from __future__ import annotations

import re
from pathlib import Path

from pipeline.judgements.host import facts_of
from pipeline.records.inputs import Inputs, digest
from pipeline.work.trained_files import trained_files_digest
from pipeline.work.view import View, card_of
from remote.protocol.jobs import RunSurvey
from remote.protocol.layout import run_name
from remote.protocol.survey import Survey

TRAINER_VERSION = 1
CHANGE_NO_TRAINING = ("project", "fixers", "logs", "secrets", "grace_s")
"""Config keys whose value does not reach the training process; what fixers did is seen in the files themselves."""


def machine_inputs(view: View) -> Inputs:
    """The host as far as a training depends on it: its identity, interpreter, torch build, driver and cards."""
    machine = view.survey.machine
    return {"machine": machine.machine_id or machine.hostname, **dict(facts_of(view.survey))}


def what_is_trained(view: View) -> Inputs:
    """Everything that reaches the training process: files as fixed, machine, config as the user wrote it."""
    config = {key: value for key, value in view.loaded.as_json().items() if key not in CHANGE_NO_TRAINING}
    return {
        "files as fixed": trained_files_digest(view),
        "card": card_of(view),
        **machine_inputs(view),
        "config": digest({"run": config, "env": dict(view.host.config.env)}),
    }


def work_inputs(view: View) -> Inputs:
    """Everything the training depends on: all that was proved, and the data."""
    return {**what_is_trained(view), "data": view.data_digest or "by name", "trainer": str(TRAINER_VERSION)}


def work_fingerprint(view: View) -> str:
    """One digest of it."""
    return digest(dict(work_inputs(view)))


def run_id(view: View) -> str:
    """The id of the run that does this work: the view's serial, else the newest that the host has."""
    work = work_fingerprint(view)
    serial = view.serial or newest_serial(view.survey, run_name(view.loaded.name, work))
    return run_name(view.loaded.name, work, serial)


def name_of(view: View) -> str:
    """What names that run in this project: its id, unless another host had a run of that id first."""
    return view.records.run_name(run_id(view), view.host.name)


def folder_of(view: View) -> Path:
    """Where what comes home of that run lies."""
    return view.records.run(run_id(view), view.host.name)


def next_serial(view: View) -> int:
    """The serial of a repetition: 1 where the work was never started."""
    first = run_name(view.loaded.name, work_fingerprint(view))
    return newest_serial(view.survey, first) + 1 if view.survey.run(first) is not None else 1


def run_of(view: View) -> RunSurvey | None:
    """That run as it lies on the host."""
    return view.survey.run(run_id(view))


def newest_serial(survey: Survey, first_id: str) -> int:
    """The highest serial the host has of the run whose first id this is; 1 where it has none."""
    pattern = re.compile(re.escape(first_id) + r"-(\d{1,6})")
    found = (pattern.fullmatch(run.run) for run in survey.runs)
    return max((int(match.group(1)) for match in found if match), default=1)
