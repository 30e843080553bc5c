"""The typed, frozen model of configs/*.yaml; unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat, StrictBool, StrictInt

from pipeline.config.host_model import Cards, SlurmConfig
from pipeline.config.values import Command, Frozen, Positive, SecretName, Share, Text, VariableName


class ModelConfig(Frozen):
    """The base model. `id` is a hub id, a path on the host, or a small random model such as `tiny/voxtral`."""

    id: Text
    revision: Text | None = None
    adapter: Text = "fresh"
    trust_remote_code: StrictBool = False
    quantization: Literal["nf4"] | None = None


class LoraConfig(Frozen):
    """The LoRA adapter, with PEFT's names. `targets` null selects all linear layers in `parts`."""

    r: Positive = 64
    alpha: Positive = 128
    dropout: Share = 0.05
    targets: tuple[Text, ...] | None = None
    parts: tuple[Literal["decoder", "projector", "encoder"], ...] = ("decoder",)
    modules_to_save: tuple[Text, ...] = ()
    use_rslora: StrictBool = False
    use_dora: StrictBool = False


Column = Literal["audio", "text", "split", "speaker", "messages", "scores", "phones_expected", "phones_said"]


class TemplateConfig(Frozen):
    """A task: prompt and reference answer. {NAME} is replaced by the value of the column NAME of the data."""

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
    audio_position: Literal["first", "last"] = "first"


Scheduler = Literal[
    "linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt"
]
"""Learning rate schedules of transformers that need no further parameters."""


Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]
"""Trackers to which the built-in trainer reports through transformers' callbacks."""


class TrainConfig(Frozen):
    """Hyperparameters. An optimizer step uses batch_size x gradient_accumulation samples per device.

    With `auto`, `micro_batch` and `gradient_checkpointing` are chosen to fit into `memory_share` of the card's free
    memory.
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
    best_metric: Text = "loss"
    shard_base: StrictBool = False
    report_to: tuple[Tracker, ...] = ("tensorboard",)


class EvaluationConfig(Frozen):
    """Generation settings of an evaluation. `temperature` 0 selects greedy decoding."""

    samples: Positive | None = None
    batch_size: Annotated[StrictInt, Field(gt=0, le=65536)] | None = None
    temperature: Annotated[FiniteFloat, Field(ge=0, le=10)] = 0.0
    top_p: Annotated[FiniteFloat, Field(gt=0, le=1)] = 1.0
    max_new_tokens: Annotated[StrictInt, Field(gt=0, le=65536)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 42
    base: StrictBool = True
    resamples: Annotated[StrictInt, Field(ge=0, le=100_000)] = 1000


class FixersConfig(Frozen):
    """A value for each fixer, by name: `auto` (run if the fixer applies), `off`, `never`, or settings of the fixer."""

    model_config = ConfigDict(frozen=True, extra="allow")


class LogsConfig(Frozen):
    """The folder of TensorBoard event files, relative to the script's working folder. `auto` searches for the files."""

    tensorboard: Text = "auto"


class InputsConfig(Frozen):
    """The project files that are inputs of a run. Changes of other files do not start a new run.

    `exclude` holds gitignore patterns; `auto` means documentation, images, tests, untracked log files and the
    outputs of notebooks.
    """

    exclude: tuple[Text, ...] = ("auto",)


class RunConfig(Frozen):
    """The keys of configs/NAME.yaml."""

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
    gpus: Cards | None = None
    processes: Positive | None = None
    restarts: Annotated[StrictInt, Field(ge=0, le=1000)] = 0
    grace_s: Annotated[FiniteFloat, Field(gt=0, le=3600)] = 60.0
    notify: Text | None = None
