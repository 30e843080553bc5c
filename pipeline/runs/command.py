"""Build the command of a job: the built-in trainer with its spec, or the project's command. Pure."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Any

from pipeline.config.model import RunConfig, TrainConfig
from pipeline.runs.launch import launch_of
from pipeline.runs.launcher import LOOPBACK_ONLY, PYTHONS, nodes_of, process_count, script_of, torchrun
from pipeline.runs.runtime import runtime_of
from pipeline.runs.view import View, data_name
from remote.policy.cards import memory_of
from remote.project.paths import is_file
from remote.protocol.dataclass import dataclass
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

SCRATCH_DATA = ".halfstep-data"


@dataclass(frozen=True)
class Place:
    """Absolute paths on the host: `data` is the separately uploaded data; `cache` is for preprocessed data."""

    data: str
    cache: str


def job_place(view: View) -> Place:
    """Return the paths for jobs. All runs of the project share these paths."""
    return Place(f"{view.workdir}/{view.layout.data}/{view.data_digest}", f"{view.workdir}/{view.layout.cache}")


def proof_place(view: View, source: str) -> Place:
    """Return the paths for a proof.

    The cache, and data that was uploaded only for the proof, are removed after the proof.
    """
    uploaded = view.data_digest in view.survey.data
    return Place(job_place(view).data if uploaded else f"{source}/{SCRATCH_DATA}", "{run_dir}/cache")


def command_of(view: View, place: Place, nodes: int = 1) -> tuple[str, ...]:
    """Return the argv of the training process or of torchrun.

    The host fills in {payload} and other placeholders. `nodes` is the number of Slurm nodes of the job.
    """
    command, python = launch_of(view).command, interpreter_of(view)
    several = processes_of(view) > 1 or view.group is not None or nodes > 1
    if command is None:
        built_in = ("{payload}", "train", dumps(training_spec(view, place)).decode())
        return torchrun(python, view, built_in, nodes) if several else (python, "-B", *built_in)
    if found := data_path(view, place):
        command = tuple(word.replace("{data_dir}", found) for word in command)
    script = script_of(command) if several else None
    if script is not None:
        return torchrun(python, view, script, nodes)
    return (python, *command[1:]) if command[0] in PYTHONS else command


def processes_of(view: View) -> int:
    """Return the number of training processes on the host."""
    return process_count(view.config, view.host.config)


def ranks_of(view: View) -> int:
    """Return the number of processes that save a random state into each checkpoint: 1 unless torchrun starts them."""
    if view.group is not None:
        return view.group.processes
    return processes_of(view) * nodes_of(view) if _uses_torchrun(view) else 1


def _uses_torchrun(view: View) -> bool:
    """Return True if torchrun starts the command in the case of several processes."""
    command = view.config.command
    return command is None or script_of(command) is not None


def shown_command(view: View) -> str:
    """Return the command for display: the project's command, or the name of the built-in trainer."""
    own = launch_of(view).command
    if own is not None:
        return shlex.join(own)
    return "built-in trainer" + (f", {processes_of(view)} processes" if processes_of(view) > 1 else "")


def data_path(view: View, place: Place) -> str:
    """Return the path of `data.path` on the host, a folder or a file, or "" if `data.path` is not set."""
    if view.data is None or view.config.data.path is None:
        return ""
    return f"{place.data}/{view.data.root.name}" if is_file(view.data.root) else place.data


def data_at(view: View, place: Place) -> dict[str, str]:
    """Return {path in the project: path on the host} for data that a custom command expects inside the project."""
    found, at = data_path(view, place), data_name(view.loaded)
    return {at: found} if found and at and view.config.command is not None else {}


def interpreter_of(view: View) -> str:
    """Return the interpreter of the job, as the host resolved it."""
    return view.survey.interpreter.path or view.host.config.python or "python3"


def environment_of(view: View, place: Place | None = None, nodes: int = 1) -> dict[str, str]:
    """Return the environment variables of a job, without secrets, in addition to the host's environment.

    On several nodes, the variables for the network interface are not set, because each node determines its own
    interface.
    """
    variables = {**launch_of(view).env, **runtime_of(view), "PYTHONUNBUFFERED": "1"}
    if place is not None and (found := data_path(view, place)):
        variables["HALFSTEP_DATA_DIR"] = found
    folder = str(PurePosixPath(interpreter_of(view)).parent)
    if folder not in (".", ""):
        variables["PATH"] = f"{folder}:$PATH"
    cards = visible_cards(view)
    if cards is not None:
        # nvidia-smi numbers cards by PCI bus. CUDA numbers cards by speed unless this variable is set.
        variables.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        variables.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, cards)))
    # By default, gloo uses the address of the hostname, which may be public or unreachable for other hosts.
    if view.group is not None:
        node = view.group.node
        interfaces = dict.fromkeys(LOOPBACK_ONLY, node.interface) if node is not None and node.interface else {}
    else:
        interfaces = LOOPBACK_ONLY if nodes == 1 and processes_of(view) > 1 and _uses_torchrun(view) else {}
    # After a restart, torchrun's store still contains the addresses of the ended processes (torch 2.13).
    restarted = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if view.config.restarts else {}
    return {**interfaces, **restarted, **variables}


def visible_cards(view: View) -> tuple[int, ...] | None:
    """Return the indices of the cards that the job may use, or None for all cards or the cards that Slurm selects.

    The built-in trainer gets one card per process, because transformers would use DataParallel in a process with
    several cards.
    """
    cards = view.host.config.gpus
    if view.config.command is not None or view.host.config.scheduler is not None:
        return cards
    if cards is None:
        cards = tuple(gpu.index for gpu in view.survey.gpus if not gpu.assumed)
        return cards[: processes_of(view)] if len(cards) > processes_of(view) else None
    return cards[: processes_of(view)]


def training_spec(view: View, place: Place) -> TrainingSpec:
    """Return the spec of the built-in trainer. The host replaces empty paths with the job's folders."""
    config = view.config
    assert config.model is not None
    data, gpu = config.data, view.survey.gpu
    return TrainingSpec(
        model=ModelSpec(**config.model.model_dump()),
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
            audio_position=data.audio_position,
            templates={name: Template(one.prompt, one.target) for name, one in data.templates.items()},
        ),
        precision=view.precision,
        paths=TrainingPaths("", "", "", "", place.cache),
        lora=LoraSpec(**config.lora.model_dump()),
        train=_loop(config.train),
        card=gpu.name if gpu is not None else "",
        card_bytes=memory_of(gpu.name) if gpu is not None and gpu.assumed else None,
        evaluation=answer_spec(config),
    )


def answer_spec(config: RunConfig) -> AnswerSpec:
    """Return the generation settings of an evaluation."""
    return AnswerSpec(**config.evaluation.model_dump())


def _loop(train: TrainConfig) -> LoopSpec:
    keys: dict[str, Any] = {name: None if value == "auto" else value for name, value in train.model_dump().items()}
    return LoopSpec(**keys)


def steps_of(view: View) -> int | None:
    """Return the number of optimizer steps of the run, or None if the number is unknown on the laptop."""
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
        processes=view.group.processes if view.group is not None else processes_of(view) * nodes_of(view),
    )
