"""The typed, frozen form of configs/hosts/*.yaml and configs/*.yaml; unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StrictBool, StrictInt, StrictStr

Positive = Annotated[StrictInt, Field(gt=0, le=10**9)]
Share = Annotated[FiniteFloat, Field(ge=0.0, lt=1.0)]


class Frozen(BaseModel):
    """Nothing changes after loading; nothing unknown is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class HostConfig(Frozen):
    """configs/hosts/NAME.yaml; an alias of ~/.ssh/config needs no file."""

    host: StrictStr
    port: Annotated[StrictInt, Field(ge=1, le=65535)] | None = None
    user: StrictStr | None = None
    identity_file: StrictStr | None = None
    known_hosts: StrictStr | None = None
    host_key: StrictStr | None = Field(None, description="SHA256:... of the only key that may answer")
    proxy_jump: tuple[StrictStr, ...] = ()
    workdir: StrictStr = "~/halfstep"
    python: StrictStr | None = None
    gpus: tuple[Annotated[StrictInt, Field(ge=0)], ...] | None = None
    card: StrictStr | StrictInt | FiniteFloat | None = None
    container: StrictStr | None = None
    scheduler: Literal["slurm"] | None = None
    env: dict[StrictStr, StrictStr] = {}
    secrets: tuple[StrictStr, ...] = ()


class ModelConfig(Frozen):
    """What is fine-tuned. `id` is a hub id, a path on the host, or `tiny/phi4-multimodal`, `tiny/qwen2-audio`."""

    id: StrictStr
    revision: StrictStr | None = None
    adapter: StrictStr = "fresh"
    trust_remote_code: StrictBool = False


class LoraConfig(Frozen):
    """Rank, alpha (scaling is alpha / r) and dropout of the adapter; `targets` null: the registry's for the model."""

    r: Positive = 64
    alpha: Positive = 128
    dropout: Share = 0.05
    targets: tuple[StrictStr, ...] | None = None


class DataConfig(Frozen):
    """What is trained on: a hub dataset, a folder here (`path`, sent apart from code), or the shipped tiny-speech."""

    dataset: StrictStr | None = None
    revision: StrictStr | None = None
    path: StrictStr | None = None
    split: StrictStr = "train"
    evaluation_split: StrictStr | None = None
    tasks: tuple[Literal["apa", "mdd"], ...] = ("apa", "mdd")
    samples: Positive | None = None


class TrainConfig(Frozen):
    """How long and how fast. Batch size counts samples per device and micro-step."""

    epochs: Positive = 3
    batch_size: Annotated[StrictInt, Field(gt=0, le=65536)] = 8
    gradient_accumulation: Annotated[StrictInt, Field(gt=0, le=65536)] = 8
    learning_rate: Annotated[FiniteFloat, Field(gt=0, le=10)] = 2.0e-5
    scheduler: StrictStr = "cosine"
    warmup_steps: Annotated[StrictInt, Field(ge=0, le=10**9)] = 0
    weight_decay: Annotated[FiniteFloat, Field(ge=0, le=10)] = 0.0
    max_grad_norm: Annotated[FiniteFloat, Field(gt=0)] = 1.0
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 42
    max_steps: Positive | None = None
    save_steps: Positive | None = None
    logging_steps: Positive = 1
    gradient_checkpointing: StrictBool = True
    keep_checkpoints: Positive = 2
    evaluate: StrictBool = True


class FixersConfig(Frozen):
    """Per fixer: `auto` (when it applies), `off`, or its own settings. Names are the fixers' own."""

    model_config = ConfigDict(frozen=True, extra="allow")


class LogsConfig(Frozen):
    """Where the script writes TensorBoard event files, relative to its working folder; `auto` looks for them."""

    tensorboard: StrictStr = "auto"


class RunConfig(Frozen):
    """configs/NAME.yaml."""

    project: StrictStr = "."
    command: tuple[StrictStr, ...] | None = None
    precision: Literal["auto", "bf16", "fp16-mixed", "fp16-pure", "fp32"] = "auto"
    model: ModelConfig | None = None
    lora: LoraConfig = LoraConfig()
    data: DataConfig = DataConfig()
    train: TrainConfig = TrainConfig()
    fixers: FixersConfig = FixersConfig()
    logs: LogsConfig = LogsConfig()
    env: dict[StrictStr, StrictStr] = {}
    secrets: tuple[StrictStr, ...] = ()
    processes: Positive = 1
    grace_s: Annotated[FiniteFloat, Field(gt=0, le=3600)] = 60.0
