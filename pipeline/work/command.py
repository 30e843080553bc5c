"""The command of a job: the built-in trainer with its spec, or the project's own command. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pipeline.config.model import RunConfig, TrainConfig
from pipeline.work.launch import launch_of
from pipeline.work.runtime import runtime_of
from pipeline.work.view import View, data_name
from remote.policy.cards import memory_of
from remote.protocol.training import (
    AnswerSpec,
    DataSpec,
    LoopSpec,
    LoraSpec,
    ModelSpec,
    Template,
    TrainingPaths,
    TrainingSpec,
    planned_steps,
)
from remote.protocol.values import dumps

PYTHONS = ("python", "python3")
SCRATCH_DATA = ".halfstep-data"


@dataclass(frozen=True)
class Place:
    """Absolute paths on the host: `data`, uploaded separately from the code, and `cache`, for preprocessed data."""

    data: str
    cache: str


def job_place(view: View) -> Place:
    """Return the paths for jobs, which all runs of the project share."""
    return Place(f"{view.workdir}/{view.layout.data}/{view.data_digest}", f"{view.workdir}/{view.layout.cache}")


def proof_place(view: View, source: str) -> Place:
    """Return the paths for a proof, whose cache is removed with it, as is data that was uploaded for it."""
    uploaded = view.data_digest in view.survey.data
    return Place(job_place(view).data if uploaded else f"{source}/{SCRATCH_DATA}", "{run_dir}/cache")


def command_of(view: View, place: Place) -> tuple[str, ...]:
    """Return the argv of the training process or of torchrun; the host fills in {payload} and other placeholders."""
    config, command = view.config, launch_of(view).command
    python = interpreter_of(view)
    if command is None:
        own: tuple[str, ...] = ("-B", "{payload}", "train", dumps(training_spec(view, place)).decode())
        return (python, *own) if config.processes == 1 else _torchrun(python, config.processes, own)
    if found := data_path(view, place):
        command = tuple(word.replace("{data_dir}", found) for word in command)
    return (python, *command[1:]) if command[0] in PYTHONS else command


def data_path(view: View, place: Place) -> str:
    """Return the path of `data.path` on the host, a folder or a file; empty if it is not set."""
    if view.data is None or view.config.data.path is None:
        return ""
    return f"{place.data}/{view.data.root.name}" if view.data.root.is_file() else place.data


def data_at(view: View, place: Place) -> dict[str, str]:
    """Return the data by its path in the project, under which a custom command finds it on the laptop."""
    found, at = data_path(view, place), data_name(view.loaded)
    return {at: found} if found and at and view.config.command is not None else {}


def _torchrun(python: str, processes: int, own: tuple[str, ...]) -> tuple[str, ...]:
    endpoint = "127.0.0.1:{free_port}"
    flags = ("--nproc-per-node", str(processes), "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint)
    return (python, "-m", "torch.distributed.run", *flags, *own[1:])


def interpreter_of(view: View) -> str:
    """Return the interpreter of the job, as the host resolved it."""
    return view.survey.interpreter.path or view.host.config.python or "python3"


def environment_of(view: View, place: Place | None = None) -> dict[str, str]:
    """Return the environment variables of a job, without secrets, in addition to the host's environment."""
    host = view.host.config
    variables = {**launch_of(view).env, **runtime_of(view), "PYTHONUNBUFFERED": "1"}
    if place is not None and (found := data_path(view, place)):
        variables["HALFSTEP_DATA_DIR"] = found
    folder = str(PurePosixPath(interpreter_of(view)).parent)
    if folder not in (".", ""):
        variables["PATH"] = f"{folder}:$PATH"
    if host.gpus is not None:
        variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, host.gpus)))
    return variables


def training_spec(view: View, place: Place) -> TrainingSpec:
    """Return the spec of the built-in trainer. The host fills in empty paths, which are the job's folders."""
    config = view.config
    assert config.model is not None
    data, gpu = config.data, view.survey.gpu
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
            file=data.file,
            columns={str(name): column for name, column in data.columns.items()},
            min_seconds=data.min_seconds,
            max_seconds=data.max_seconds,
            max_skipped=data.max_skipped,
            validation_split=data.validation_split,
            validation_samples=data.validation_samples,
            templates={name: Template(one.prompt, one.target) for name, one in data.templates.items()},
        ),
        precision=view.precision,
        paths=TrainingPaths("", "", "", "", place.cache),
        lora=LoraSpec(config.lora.r, config.lora.alpha, config.lora.dropout, config.lora.targets),
        train=_loop(config.train),
        card=gpu.name if gpu is not None else "",
        card_bytes=memory_of(gpu.name) if gpu is not None and gpu.assumed else None,
        evaluation=answer_spec(config),
    )


def answer_spec(config: RunConfig) -> AnswerSpec:
    """Return how the model answers in an evaluation."""
    return AnswerSpec(**config.evaluation.model_dump())


def _loop(train: TrainConfig) -> LoopSpec:
    keys: dict[str, Any] = {name: None if value == "auto" else value for name, value in train.model_dump().items()}
    return LoopSpec(**keys)


def steps_of(view: View) -> int | None:
    """Return the number of optimizer steps of the run; None if it is unknown on the laptop."""
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
