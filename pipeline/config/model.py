"""The typed, frozen models of configs/hosts/*.yaml and configs/*.yaml; unknown keys are errors."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import PydanticCustomError

from remote.protocol.jobs import SBATCH_OPTION


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "must not contain a NUL character")
    return text


def _variable_name(name: str) -> str:
    if not name or "=" in name:
        raise PydanticCustomError("variable_name", "must be the name of an environment variable, without `=`")
    return name


def _secret_name(name: str) -> str:
    # Commands that are printed for the user, and the files of other tools, contain these names.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise PydanticCustomError("secret_name", "must be the name of an environment variable: letters, digits and _")
    return name


SHELL = frozenset(("&&", "||", "|", ";", "&", ">", ">>", "<", "2>&1"))


def _split_words(command: Any) -> Any:
    """Split a command line into words, as a shell does; nothing else of the shell's syntax is known."""
    if not isinstance(command, str):
        return command
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PydanticCustomError("command_line", "cannot be split into words: {why}", {"why": str(error)}) from None
    found = next((word for word in words if word in SHELL), "")
    if found:
        hint = 'has the shell operator {found}: put the line into a script, or write [bash, -c, "..."]'
        raise PydanticCustomError("shell_syntax", hint, {"found": found})
    return tuple(words)


Text = Annotated[StrictStr, AfterValidator(_without_nul)]
"""Text that a process can receive as an argument or in its environment."""
Command = Annotated[tuple[Text, ...], BeforeValidator(_split_words, json_schema_input_type=str | tuple[str, ...])]
"""A command line, or its words."""
VariableName = Annotated[Text, AfterValidator(_variable_name)]
SecretName = Annotated[Text, AfterValidator(_secret_name)]
Positive = Annotated[StrictInt, Field(gt=0, le=10**9)]
Share = Annotated[FiniteFloat, Field(ge=0.0, lt=1.0)]


class Frozen(BaseModel):
    """A frozen model that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


OWN_OPTIONS = (
    "job-name",
    "J",
    "output",
    "o",
    "signal",
    "requeue",
    "no-requeue",
    "chdir",
    "D",
    "array",
    "a",
    "wait",
    "W",
    "wrap",
    "parsable",
)
"""sbatch options that the supervisor of a job depends on, or whose value is set already."""


def _sbatch_option(option: str) -> str:
    if not re.fullmatch(SBATCH_OPTION, option):
        raise PydanticCustomError("sbatch_option", "is no sbatch option; write --name or --name=value")
    name = option.lstrip("-").partition("=")[0]
    # sbatch accepts `--outp=x` for --output=x, and `-a1-3` for -a 1-3.
    if any(own.startswith(name) if option.startswith("--") else own == name[0] for own in OWN_OPTIONS):
        raise PydanticCustomError("sbatch_option", "{name} is set by halfstep", {"name": name})
    return option


SlurmText = Annotated[Text, Field(pattern=r"^[^\s\n]+$")]


class SlurmConfig(Frozen):
    """What a job requests from Slurm. `cpus` are per task; a number is MB per node for `mem`, minutes for `time`."""

    partition: SlurmText | None = None
    account: SlurmText | None = None
    gres: SlurmText | None = None
    gpus: Positive | SlurmText | None = None
    cpus: Positive | None = None
    mem: Positive | SlurmText | None = None
    time: Positive | SlurmText | None = None
    constraint: SlurmText | None = None
    qos: SlurmText | None = None
    extra: tuple[Annotated[Text, AfterValidator(_sbatch_option)], ...] = ()


class HostConfig(Frozen):
    """configs/hosts/NAME.yaml; an alias of ~/.ssh/config needs no file."""

    host: Text
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = None
    user: Text | None = None
    identity_file: Text | None = None
    known_hosts: Text | None = None
    host_key: Text | None = Field(None, description="SHA256:... of the only accepted host key")
    proxy_jump: tuple[Text, ...] = ()
    workdir: Text = "~/halfstep"
    python: Text | None = None
    gpus: tuple[Annotated[StrictInt, Field(ge=0)], ...] | None = None
    card: Text | StrictInt | FiniteFloat | None = None
    container: Text | None = None
    scheduler: Literal["slurm"] | None = None
    slurm: SlurmConfig | None = None
    env: dict[VariableName, Text] = {}
    secrets: tuple[SecretName, ...] = ()


class ModelConfig(Frozen):
    """The base model. `id` is a hub id, a path on the host, or `tiny/phi4-multimodal`, `tiny/qwen2-audio`."""

    id: Text
    revision: Text | None = None
    adapter: Text = "fresh"
    trust_remote_code: StrictBool = False


class LoraConfig(Frozen):
    """Rank, alpha (scaling is alpha / r) and dropout of the adapter. `targets` null: the model's defaults."""

    r: Positive = 64
    alpha: Positive = 128
    dropout: Share = 0.05
    targets: tuple[Text, ...] | None = None


Column = Literal["audio", "text", "split", "speaker", "messages", "scores", "phones_expected", "phones_said"]


class TemplateConfig(Frozen):
    """A task: prompt and reference answer, in which {NAME} stands for a column of the data."""

    prompt: Text
    target: Text


class DataConfig(Frozen):
    """The training data: a hub dataset, a local folder (`path`, sent separately), or the built-in tiny-speech."""

    dataset: Text | None = None
    revision: Text | None = None
    path: Text | None = None
    split: Text = "train"
    evaluation_split: Text | None = None
    tasks: tuple[Text, ...] = ("apa", "mdd")
    samples: Positive | None = None
    file: Text = "metadata.jsonl"
    columns: dict[Column, Text] = {}
    templates: dict[Text, TemplateConfig] = {}
    min_seconds: Annotated[FiniteFloat, Field(gt=0, le=3600)] = 0.1
    max_seconds: Annotated[FiniteFloat, Field(gt=0, le=3600)] = 30.0
    max_skipped: Annotated[StrictInt, Field(ge=0, le=10**9)] = 0
    validation_split: Text | None = None
    validation_samples: Positive | None = None


Scheduler = Literal[
    "linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt"
]
"""transformers' schedules of the learning rate that need no parameters of their own."""


class TrainConfig(Frozen):
    """Hyperparameters. An optimizer step takes batch size x gradient accumulation samples per device.

    `micro_batch` and `gradient_checkpointing` auto: chosen for `memory_share` of the memory that is free on the card.
    """

    epochs: Positive = 3
    batch_size: Annotated[StrictInt, Field(gt=0, le=65536)] = 8
    gradient_accumulation: Annotated[StrictInt, Field(gt=0, le=65536)] = 8
    micro_batch: Literal["auto"] | Annotated[StrictInt, Field(gt=0, le=65536)] = "auto"
    learning_rate: Annotated[FiniteFloat, Field(gt=0, le=10)] = 2.0e-5
    scheduler: Scheduler = "cosine"
    warmup_steps: Annotated[StrictInt, Field(ge=0, le=10**9)] = 0
    weight_decay: Annotated[FiniteFloat, Field(ge=0, le=10)] = 0.0
    max_grad_norm: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 42
    max_steps: Positive | None = None
    save_steps: Positive | None = None
    logging_steps: Positive = 1
    gradient_checkpointing: Literal["auto"] | StrictBool = "auto"
    memory_share: Annotated[FiniteFloat, Field(gt=0, le=1)] = 0.9
    keep_checkpoints: Positive = 2
    evaluate: StrictBool = True
    eval_steps: Positive | None = None
    early_stop: Positive | None = None


class EvaluationConfig(Frozen):
    """How the model answers in an evaluation. `temperature` 0: greedy decoding."""

    samples: Positive | None = None
    batch_size: Annotated[StrictInt, Field(gt=0, le=65536)] | None = None
    temperature: Annotated[FiniteFloat, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[FiniteFloat, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Annotated[StrictInt, Field(gt=0, le=65536)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 42
    base: StrictBool = True
    resamples: Annotated[StrictInt, Field(ge=0, le=100_000)] = 1000


class FixersConfig(Frozen):
    """By name of the fixer: `auto` (run if it applies), `off`, `never`, or its settings."""

    model_config = ConfigDict(frozen=True, extra="allow")


class LogsConfig(Frozen):
    """The folder of TensorBoard event files, relative to the script's working folder; `auto` searches for them."""

    tensorboard: Text = "auto"


class InputsConfig(Frozen):
    """Which files of the project are inputs of a run; the others may change without starting a new run.

    `exclude` holds gitignore patterns; `auto` stands for documentation, images, tests and the outputs of notebooks.
    """

    exclude: tuple[Text, ...] = ("auto",)


class RunConfig(Frozen):
    """configs/NAME.yaml."""

    project: Text = "."
    command: Command | None = None
    precision: Literal["auto", "bf16", "fp16-mixed", "fp16-pure", "fp32"] = "auto"
    model: ModelConfig | None = None
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    fixers: FixersConfig = FixersConfig()
    logs: LogsConfig = LogsConfig()
    inputs: InputsConfig = InputsConfig()
    env: dict[VariableName, Text] = {}
    secrets: tuple[SecretName, ...] = ()
    slurm: SlurmConfig | None = None
    processes: Positive = 1
    grace_s: Annotated[FiniteFloat, Field(gt=0, le=3600)] = 60.0
    notify: Text | None = None
