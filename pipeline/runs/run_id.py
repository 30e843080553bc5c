"""Compute the id of a run from its project, host and config; equal inputs give the same id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.config.model import RunConfig
from pipeline.judgements.host import facts_of
from pipeline.records.inputs import Inputs, digest
from pipeline.runs.launcher import nodes_of, process_count
from pipeline.runs.runtime import runtime_of
from pipeline.runs.trained_files import trained_files_digest
from pipeline.runs.view import View, card_of
from remote.protocol.jobs import RunSurvey
from remote.protocol.layout import run_name
from remote.protocol.runtime import VERSION
from remote.protocol.survey import Survey

TRAINER_VERSION = 2
KEYS_WITHOUT_INFLUENCE = (
    "project",
    "evaluation",
    "fixers",
    "logs",
    "inputs",
    "secrets",
    "slurm",
    "gpus",
    "restarts",
    "grace_s",
    "notify",
)
"""Config keys that do not directly influence the training process. `fixers` and `inputs` influence the files."""
TRAIN_KEYS_WITHOUT_INFLUENCE = ("report_to",)
"""Keys of `train:` that do not influence the training process."""


def machine_inputs(view: View) -> Inputs:
    """Return the host's identity, interpreter, torch build, driver and cards."""
    machine = view.survey.machine
    return {"machine": machine.machine_id or machine.hostname, **dict(facts_of(view.survey))}


def training_settings(config: RunConfig) -> dict[str, Any]:
    """Return the settings that influence the training and differ from their defaults.

    Defaults are omitted, so that a key added by a later version does not change the id of finished runs.
    TRAINER_VERSION changes when a default changes.
    """
    settings = config.model_dump(mode="json", exclude_defaults=True)
    if config.processes == 1:
        del settings["processes"]
    return influential(settings)


def influential(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that influence the training."""
    kept = {key: value for key, value in settings.items() if key not in KEYS_WITHOUT_INFLUENCE}
    if train := kept.pop("train", None):
        left = {key: value for key, value in train.items() if key not in TRAIN_KEYS_WITHOUT_INFLUENCE}
        kept |= {"train": left} if left else {}
    return kept


def training_inputs(view: View) -> Inputs:
    """Return all inputs of the training process except the data: files as fixed, machine, and config without cures."""
    runtime = runtime_of(view)
    config = training_settings(view.loaded.config)
    processes = process_count(view.loaded.config, view.host.config)
    if processes > 1:
        config["processes"] = processes
    if nodes_of(view) > 1:
        config["nodes"] = nodes_of(view)
    return {
        "files as fixed": trained_files_digest(view),
        "card": card_of(view),
        **machine_inputs(view),
        "config": digest({"run": config, "env": dict(view.host.config.env)}),
        **({"runtime": digest({**runtime, "version": VERSION})} if runtime else {}),
    }


def training_fingerprint(view: View) -> str:
    """Return the digest of `training_inputs`, under which the proof of the training is kept for the report."""
    return digest(dict(training_inputs(view)))


def work_inputs(view: View) -> Inputs:
    """Return all inputs of the run: the inputs of the training process, and the data."""
    return {**training_inputs(view), "data": view.data_digest or "by name", "trainer": str(TRAINER_VERSION)}


def work_fingerprint(view: View) -> str:
    """Return the digest of `work_inputs`. If several hosts train together, the digest covers all hosts."""
    return view.group.work if view.group is not None else digest(dict(work_inputs(view)))


def run_id(view: View) -> str:
    """Return the id of the run.

    The id is that of the run to resume, else of the run that was resumed with these inputs, else the config's name with
    a digest of the inputs. The digest is followed by the view's serial, or by the highest serial on the host.
    """
    if view.serial is None and view.resume:
        return view.resume
    if view.serial is None and (resumed := resumed_run(view)):
        return resumed
    work = work_fingerprint(view)
    serial = view.serial or newest_serial(view.survey, run_name(view.loaded.name, work))
    return run_name(view.loaded.name, work, serial)


def resumed_run(view: View) -> str:
    """Return the id of the run whose newest job resumed it with the current inputs, or "".

    The inputs are those in the job's record on the host: a record in a cloned project could name any run. A run that
    began with the current inputs takes precedence.
    """
    config, work = view.loaded.name, work_fingerprint(view)
    others = [run for run in view.survey.runs if run.config == config and run.newest_fingerprint == work]
    if not others or view.survey.run(run_name(config, work)) is not None:
        return ""
    return next((run.run for run in reversed(others) if run.fingerprint != work), "")


def name_of(view: View) -> str:
    """Return the run's name in this project: its id, with the host appended if another host has the same id."""
    return view.records.run_name(run_id(view), view.host.name)


def folder_of(view: View) -> Path:
    """Return the local folder of the run."""
    return view.records.run(run_id(view), view.host.name)


def next_serial(view: View) -> int:
    """Return the serial of the next repetition, or 1 if the host has no run with these inputs."""
    first = run_name(view.loaded.name, work_fingerprint(view))
    return newest_serial(view.survey, first) + 1 if view.survey.run(first) is not None else 1


def run_of(view: View) -> RunSurvey | None:
    """Return the run on the host, or None if the host does not have the run."""
    return view.survey.run(run_id(view))


def newest_serial(survey: Survey, first_id: str) -> int:
    """Return the highest serial among the host's runs with these inputs, or 1 if there is no such run.

    `first_id` is the id with serial 1.
    """
    pattern = re.compile(re.escape(first_id) + r"-(\d{1,6})")
    found = (pattern.fullmatch(run.run) for run in survey.runs)
    return max((int(match.group(1)) for match in found if match), default=1)
