"""What is run on the host: the built-in trainer with its spec, or the project's own command. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pipeline.work.launch import launch_of
from pipeline.work.view import View
from remote.protocol.training import (
    DataSpec,
    LoopSpec,
    LoraSpec,
    ModelSpec,
    TrainingPaths,
    TrainingSpec,
    planned_steps,
)
from remote.protocol.values import dumps

PYTHONS = ("python", "python3")
SCRATCH_DATA = ".halfstep-data"


@dataclass(frozen=True)
class Place:
    """Where a training process finds large data and keeps what it computes once: absolute paths on the host."""

    data: str
    cache: str


def job_place(view: View) -> Place:
    """Beside the project's runs, shared by all of them."""
    return Place(f"{view.workdir}/{view.layout.data}/{view.data_digest}", f"{view.workdir}/{view.layout.cache}")


def proof_place(view: View, source: str) -> Place:
    """A proof leaves nothing behind: its cache goes with it, and so does data that only came for it."""
    here = view.data_digest in view.survey.data
    return Place(job_place(view).data if here else f"{source}/{SCRATCH_DATA}", "{run_dir}/cache")


def command_of(view: View, place: Place) -> tuple[str, ...]:
    """The argv of one training process (or of torchrun); {payload} and the like are filled in on the host."""
    config, command = view.config, launch_of(view).command
    python = interpreter_of(view)
    if command is None:
        own: tuple[str, ...] = ("-B", "{payload}", "train", dumps(training_spec(view, place)).decode())
        return (python, *own) if config.processes == 1 else _torchrun(python, config.processes, own)
    if found := data_path(view, place):
        command = tuple(word.replace("{data_dir}", found) for word in command)
    return (python, *command[1:]) if command[0] in PYTHONS else command


def data_path(view: View, place: Place) -> str:
    """Where, there, `data.path` is: its folder, or the file itself; empty where nothing of that name is sent."""
    if view.data is None or view.config.data.path is None:
        return ""
    return f"{place.data}/{view.data.root.name}" if view.data.root.is_file() else place.data


def data_at(view: View, place: Place) -> dict[str, str]:
    """The data by its place in the project, so that a command of one's own finds it there as it does here."""
    found, named = data_path(view, place), view.config.data.path
    if not found or named is None or view.config.command is None:
        return {}
    # Not resolved: a folder that is a link here is looked for under the link's name.
    root = view.loaded.root
    at = Path(os.path.normpath(root / Path(named).expanduser()))
    return {at.relative_to(root).as_posix(): found} if root in at.parents else {}


def _torchrun(python: str, processes: int, own: tuple[str, ...]) -> tuple[str, ...]:
    endpoint = "127.0.0.1:{free_port}"
    flags = ("--nproc-per-node", str(processes), "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint)
    return (python, "-m", "torch.distributed.run", *flags, *own[1:])


def interpreter_of(view: View) -> str:
    """The Python that trains, as the host resolved it."""
    return view.survey.interpreter.path or view.host.config.python or "python3"


def environment_of(view: View, place: Place | None = None) -> dict[str, str]:
    """What is added to the host's own environment for a job; never a secret."""
    host = view.host.config
    told = {**launch_of(view).env, "PYTHONUNBUFFERED": "1"}
    if place is not None and (found := data_path(view, place)):
        told["HALFSTEP_DATA_DIR"] = found
    folder = str(PurePosixPath(interpreter_of(view)).parent)
    if folder not in (".", ""):
        told["PATH"] = f"{folder}:$PATH"
    if host.gpus is not None:
        told.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, host.gpus)))
    return told


def training_spec(view: View, place: Place) -> TrainingSpec:
    """The built-in trainer's orders. Empty paths are the job's own folders, which the host names."""
    config = view.config
    assert config.model is not None
    data = config.data
    return TrainingSpec(
        model=ModelSpec(config.model.id, config.model.revision, config.model.adapter, config.model.trust_remote_code),
        data=DataSpec(
            dataset=None if view.data_digest else data.dataset,
            revision=data.revision,
            folder=place.data if view.data_digest else None,
            split=data.split,
            evaluation_split=data.evaluation_split,
            tasks=data.tasks,
            samples=data.samples,
        ),
        precision=view.precision,
        paths=TrainingPaths("", "", "", "", place.cache),
        lora=LoraSpec(config.lora.r, config.lora.alpha, config.lora.dropout, config.lora.targets),
        train=LoopSpec(**config.train.model_dump()),
    )


def steps_of(view: View) -> int | None:
    """How many optimizer steps the run will take, where the laptop can know."""
    config = view.config
    if config.train.max_steps is not None:
        return config.train.max_steps
    if config.command is not None or config.data.samples is None:
        return None
    return planned_steps(
        config.data.samples,
        batch_size=config.train.batch_size,
        gradient_accumulation=config.train.gradient_accumulation,
        epochs=config.train.epochs,
        tasks=len(config.data.tasks),
        processes=config.processes,
    )
