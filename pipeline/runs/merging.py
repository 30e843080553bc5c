"""Derive the job of a merge from a training job, with the interpreter, model and precision of that job. Pure."""

from __future__ import annotations

from dataclasses import replace

from pipeline.records.inputs import digest
from pipeline.runs.evaluation import TRAIN, Adapter, AdapterWork, training_spec_of
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import run_name
from remote.protocol.merging import MergeSpec
from remote.protocol.shell import shell_command
from remote.protocol.training import TrainingPaths
from remote.protocol.values import dumps, encode

MERGE_VERSION = 1
STAGE = "merge"


def merge_work(
    job: JobSpec, adapter: Adapter, output: str, *, dequantize: bool, project: str, config: str
) -> AdapterWork:
    """Return a one-process job that merges an adapter into the base model of a training job.

    Raises BadUsage if the job did not run the built-in trainer.
    """
    hint = shell_command("pipeline push {}, and add .merge_and_unload() to the lines that it prints", job.run)
    spec = training_spec_of(job, hint)
    spec = replace(spec, paths=TrainingPaths("", "", "", "", spec.paths.cache))
    fingerprint = digest(
        {
            "version": MERGE_VERSION,
            "adapter": adapter.sha256,
            "model": encode(spec.model),
            "output": output,
            "dequantize": dequantize,
        }
    )
    run = run_name(f"{STAGE}-{config}", fingerprint)
    argument = dumps(MergeSpec(spec, adapter.folder, adapter.sha256, output, dequantize)).decode()
    argv = (job.argv[0], "-B", TRAIN[0], STAGE, argument)
    kept = replace(
        job, run=run, number=1, fingerprint=fingerprint, argv=argv, cwd="", steps=None, resume_from="", data={}
    )
    return AdapterWork(run, project, config, kept, STAGE)
