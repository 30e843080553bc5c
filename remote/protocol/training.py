"""The spec of the built-in trainer, the argument of `payload.pyz train SPEC`."""

from __future__ import annotations

import math
from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.precision import PrecisionPlan
from remote.protocol.quantities import memory

TASKS = ("apa", "mdd")
MESSAGES = "messages"
METADATA = "metadata.jsonl"
FRESH = "fresh"
TINY_PREFIX = "tiny/"
"""The prefix of the ids of small models that are created on the host."""
FIRST = "first"
LOSS = "loss"


@dataclass(frozen=True)
class ModelSpec:
    """The base model. `id` is a hub id, an absolute path on the host, or a name `tiny/...`.

    A `tiny/...` model is created on the host. `adapter` is `fresh`, the path of an adapter's folder, or the name of an
    adapter in the base model's repository. With the `quantization` `nf4`, the weights of the decoder are quantized to
    four bits while they are loaded.
    """

    id: str
    revision: Optional[str] = None
    adapter: str = FRESH
    trust_remote_code: bool = False
    quantization: Optional[str] = None


@dataclass(frozen=True)
class LoraSpec:
    """The LoRA settings. The scaling is alpha / r, or alpha / sqrt(r) with `use_rslora`.

    `parts` are the parts of the model that get LoRA: `decoder`, `projector`, `encoder`. If `targets` is None, all
    linear layers of these parts get LoRA. `modules_to_save` are trained in full and saved with the adapter. `use_dora`
    enables DoRA (weight-decomposed LoRA).
    """

    r: int = 64
    alpha: int = 128
    dropout: float = 0.05
    targets: Optional[Tuple[str, ...]] = None
    parts: Tuple[str, ...] = ("decoder",)
    modules_to_save: Tuple[str, ...] = ()
    use_rslora: bool = False
    use_dora: bool = False


@dataclass(frozen=True)
class Template:
    """A task of the config: its prompt and its reference answer. {NAME} is replaced with a column of the data."""

    prompt: str
    target: str


@dataclass(frozen=True)
class DataSpec:
    """The data.

    Either `dataset` is set (a hub id, with `revision`) or `folder` (an absolute path, which contains `file`). `columns`
    maps halfstep's names (audio, text, split, ...) to the columns of the data. `{split}` in `file` is replaced with the
    name of the split. `tasks` contains built-in tasks, `messages`, or names of `templates`. At most `max_skipped`
    recordings of a split may be unusable: not decodable, silent, or too short or long. `audio_position` says whether
    the audio is before (`first`) or after (`last`) the text of each prompt. If `evaluation_split` is None, `test` is
    used. `samples` limits the training to the first recordings of the split; None means all.
    """

    dataset: Optional[str] = None
    revision: Optional[str] = None
    folder: Optional[str] = None
    split: str = "train"
    evaluation_split: Optional[str] = None
    tasks: Tuple[str, ...] = TASKS
    samples: Optional[int] = None
    file: str = METADATA
    columns: Dict[str, str] = field(default_factory=dict)
    templates: Dict[str, Template] = field(default_factory=dict)
    min_seconds: float = 0.1
    max_seconds: float = 30.0
    max_skipped: int = 0
    validation_split: Optional[str] = None
    validation_samples: Optional[int] = None
    audio_position: str = FIRST


@dataclass(frozen=True)
class LoopSpec:
    """The training hyperparameters, with the names and units of `train:` in a config.

    An optimizer step uses `batch_size` x `gradient_accumulation` samples per device. If `micro_batch` and
    `gradient_checkpointing` are None, `plan_memory` chooses them, so that training uses at most `memory_share` of the
    card's free memory. The validation loss is measured every `eval_steps` optimizer steps. The adapter with the best
    `best_metric` is exported; the metric is `loss`, or a name of `metric_names` that is computed from answers to the
    validation samples. Training ends after `early_stop` measurements without a better value. If `shard_base` is True,
    the frozen weights are divided among the processes. `report_to` names trackers; TensorBoard files are always
    written.
    """

    epochs: int = 3
    batch_size: int = 8
    gradient_accumulation: int = 8
    micro_batch: Optional[int] = None
    learning_rate: float = 2.0e-5
    scheduler: str = "cosine"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    seed: int = 42
    max_steps: Optional[int] = None
    save_steps: Optional[int] = None
    logging_steps: int = 1
    gradient_checkpointing: Optional[bool] = None
    memory_share: float = 0.9
    keep_checkpoints: int = 2
    evaluate: bool = True
    eval_steps: Optional[int] = None
    early_stop: Optional[int] = None
    best_metric: str = LOSS
    shard_base: bool = False
    report_to: Tuple[str, ...] = ("tensorboard",)


@dataclass(frozen=True)
class AnswerSpec:
    """The settings with which a model answers in an evaluation, with the names of `evaluation:` in a config.

    Defaults for None: `samples`: all recordings; `batch_size`: the batch size of the training; `max_new_tokens`: the
    length of the longest reference answer plus a few tokens. A `temperature` of 0 means greedy decoding. If `base` is
    True, the base model without the adapter is evaluated too. `resamples` is the number of bootstrap resamples for the
    intervals; with 0, no intervals are computed.
    """

    samples: Optional[int] = None
    batch_size: Optional[int] = None
    temperature: float = 0.0
    top_p: float = 1.0
    max_new_tokens: Optional[int] = None
    seed: int = 42
    base: bool = True
    resamples: int = 1000


@dataclass(frozen=True)
class TrainingPaths:
    """Absolute folders on the host. progress.json, samples.jsonl and metrics.json are written to `run`.

    An empty path is replaced with the path in the job's environment, or else with a path in the run's folder. `cache`
    contains features and tiny models and may be shared by runs. `resume_from` is the checkpoint to resume from, or "".
    """

    run: str
    checkpoints: str
    tensorboard: str
    adapter: str
    cache: str
    resume_from: str = ""


@dataclass(frozen=True)
class TrainingSpec:
    """Everything that the built-in trainer needs, except secrets, which are environment variables.

    `card` and `card_bytes` are the name and memory of the card to plan for if the host has no GPU.
    """

    model: ModelSpec
    data: DataSpec
    precision: PrecisionPlan
    paths: TrainingPaths
    lora: LoraSpec = field(default_factory=LoraSpec)
    train: LoopSpec = field(default_factory=LoopSpec)
    evaluation: AnswerSpec = field(default_factory=AnswerSpec)
    card: str = ""
    card_bytes: Optional[int] = None


@dataclass(frozen=True)
class MemoryPlan:
    """How an optimizer step is divided, and how many of the language model's layers are checkpointed.

    `needed_bytes` is the estimated peak, or None if it could not be computed. It must not exceed `available_bytes`, the
    memory of `device`, or None if this memory is unknown. `length` is the number of tokens of the longest sample.
    `shared_length` is the number of tokens of the longest micro-batch with a shared prefix, or 0 if there is none.
    `hint` is the suggested change if the plan does not fit. `first_tokens` are the tokens of each of the first
    optimizer steps, `mean_tokens` those of an average step of the run; the time of a step grows with its tokens.
    `positions` and `labels` are the largest numbers of padded tokens and of labels in a micro-batch. If both are 0, a
    micro-batch has `micro_batch` samples, and an optimizer step has `accumulation` micro-batches.
    """

    micro_batch: int
    accumulation: int
    checkpointed: int
    layers: int
    length: int = 0
    needed_bytes: Optional[int] = None
    available_bytes: Optional[int] = None
    device: str = ""
    hint: str = ""
    shared_length: int = 0
    first_tokens: Tuple[int, ...] = ()
    mean_tokens: float = 0.0
    positions: int = 0
    labels: int = 0

    @property
    def fits(self) -> bool:
        """True unless more memory is needed than is available."""
        return self.needed_bytes is None or self.available_bytes is None or self.needed_bytes <= self.available_bytes

    def describe(self) -> str:
        """Return 'micro-batches of up to 4 x 420 tokens, 20 of 32 layers checkpointed: estimated 14.4 GiB on ...'."""
        division = f"micro-batch {self.micro_batch} x {self.accumulation}, "
        if self.positions:
            division = f"micro-batches of up to {self.micro_batch} x {self.length} tokens, "
        division += "shared prefixes once, " if self.shared_length else ""
        division += f"{self.checkpointed} of {self.layers} layers checkpointed"
        if self.needed_bytes is None:
            return division
        available = f" of {memory(self.available_bytes)}" if self.available_bytes is not None else ""
        return f"{division}: estimated {memory(self.needed_bytes)}{available} on {self.device}"

    def shortage(self) -> str:
        """Return '8 samples of 420 tokens, with 32 of 32 layers checkpointed, need about 11.1 GiB; ...'."""
        samples = "1 sample" if self.micro_batch == 1 else f"{self.micro_batch} samples"
        verb = "needs" if self.micro_batch == 1 else "need"
        return (
            f"{samples} of {self.length} tokens, with {self.checkpointed} of {self.layers} layers checkpointed, {verb} "
            f"about {memory(self.needed_bytes or 0)}; {self.device} has {memory(self.available_bytes or 0)} to use"
        )


def task_of(recording: int, epoch: int, tasks: int) -> int:
    """Return the index of a recording's task in an epoch. A recording gets all `tasks` in turn, one per epoch."""
    return (recording + epoch) % tasks


def planned_steps(
    samples: int,
    *,
    batch_size: int,
    gradient_accumulation: int,
    epochs: int,
    tasks: int = 1,
    processes: int = 1,
    max_steps: Optional[int] = None,
) -> int:
    """Return the optimizer steps of a run over `samples` recordings, counted as transformers' Trainer counts them.

    Each recording is used for one task per epoch (`task_of`), so `tasks` does not lengthen an epoch. The last batch and
    the last accumulation of an epoch may be short: 2,500 recordings in batches of 8 x 8 are 40 steps.
    """
    if min(samples, batch_size, gradient_accumulation, epochs, tasks, processes) < 1:
        return 0
    batches = math.ceil(samples / (batch_size * processes))
    steps = epochs * math.ceil(batches / gradient_accumulation)
    return steps if max_steps is None else max_steps
