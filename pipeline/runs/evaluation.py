"""Derive the job of an evaluation from a training job, with the interpreter, model, data and precision of that job.

Pure.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath

from pipeline.config.load import LoadedConfig
from pipeline.records.inputs import digest
from pipeline.runs.backend import Backend
from pipeline.runs.command import answer_spec
from pipeline.runs.launcher import LOOPBACK_ONLY, on_one_host
from remote.errors import BadUsage
from remote.protocol.dataclass import dataclass
from remote.protocol.evaluation import EvaluationSpec
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import run_name
from remote.protocol.training import TrainingPaths, TrainingSpec
from remote.protocol.values import Malformed, decode, dumps, encode

EVALUATION_VERSION = 1
ADAPTER_HINT = "pipeline evaluate --adapter PATH --host HOST --config NAME, with `model:` and `data:` in the config"
TRAIN = ("{payload}", "train")
ONLY_TRAINING = ("validation_split", "validation_samples")
"""Keys of `data:` that do not influence an evaluation."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter on the host: its absolute folder, and the SHA-256 of its weights."""

    folder: str
    sha256: str


@dataclass(frozen=True)
class AdapterWork:
    """One evaluation or merge: the id of its run, which contains a digest of all inputs, and the spec of its job."""

    run: str
    project: str
    config: str
    job: JobSpec
    stage: str = "evaluate"

    def start_request(self, number: int, secrets: dict[str, str], backend: Backend) -> StartRequest:
        """Return the request that starts the job with this number."""
        job = replace(self.job, number=number)
        return StartRequest(self.project, job, self.config, {"evaluation": True}, secrets, backend.name, backend.slurm)


def evaluation_work(job: JobSpec, adapter: Adapter, loaded: LoadedConfig, *, project: str, config: str) -> AdapterWork:
    """Return the evaluation of an adapter with the interpreter, model and data of a training job.

    Only `evaluation:` and the name of the data are taken from the config.

    Raises BadUsage if the job did not run the built-in trainer.
    """
    settings, data = answer_spec(loaded.config), loaded.config.data
    spec = replace(training_spec_of(job, ADAPTER_HINT), evaluation=settings)
    spec = replace(spec, paths=TrainingPaths("", "", "", "", spec.paths.cache))
    fingerprint = digest(
        {
            "version": EVALUATION_VERSION,
            "adapter": adapter.sha256,
            "model": encode(spec.model),
            "data": {name: value for name, value in encode(spec.data).items() if name not in ONLY_TRAINING},
            "precision": spec.precision.mode.value,
            "answers": encode(replace(settings, batch_size=settings.batch_size or spec.train.batch_size)),
        }
    )
    run = run_name(f"evaluate-{config}", fingerprint)
    at = list(zip(job.argv, job.argv[1:], strict=False)).index(TRAIN)
    name = data.dataset or PurePath(data.path or "").name
    argument = dumps(EvaluationSpec(spec, adapter.folder, adapter.sha256, name)).decode()
    launcher = on_one_host(job.argv[:at])
    argv = (*launcher, TRAIN[0], "evaluate", argument)
    environment = {**job.environment, **LOOPBACK_ONLY} if launcher != job.argv[:at] else job.environment
    kept = replace(job, run=run, number=1, fingerprint=fingerprint, argv=argv, environment=environment)
    kept = replace(kept, cwd="", steps=None, resume_from="", data={}, hosts=1)
    return AdapterWork(run, project, config, kept)


def training_spec_of(job: JobSpec, hint: str) -> TrainingSpec:
    """Return the spec in the command of a training job.

    Raises BadUsage with the hint `hint` if the job did not run the built-in trainer.
    """
    for number, pair in enumerate(zip(job.argv, job.argv[1:], strict=False)):
        if pair == TRAIN and number + 2 < len(job.argv):
            try:
                return decode(TrainingSpec, json.loads(job.argv[number + 2]), signed=False)
            except (ValueError, Malformed, RecursionError):
                break
    raise BadUsage(
        f"{job.run} was trained by the project's own command, so its model and data are unknown",
        where="RUN",
        hint=hint,
    )
