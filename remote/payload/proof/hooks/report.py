"""The values that the hooks report. The training process writes them as JSON, and another process judges them."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Dict, Optional, Tuple

from .batch_report import BatchTables
from .step import Step
from .weights_report import ChangedBetween, HalfAverage, UntiedHead


@dataclass(frozen=True)
class Crash:
    """The exception that ended the process."""

    type: str
    message: str


@dataclass(frozen=True)
class Device:
    """The device of the first parameter. `capability` and `total_bytes` describe a CUDA card."""

    type: str = ""
    name: str = ""
    capability: Optional[Tuple[int, int]] = None
    total_bytes: Optional[int] = None


@dataclass(frozen=True)
class Memory:
    """Peak memory of the process. On the card, `others_bytes` are used by the CUDA context and other processes."""

    allocated_bytes: int = 0
    reserved_bytes: Optional[int] = None
    others_bytes: int = 0


@dataclass(frozen=True)
class DtypeCount:
    """The tensors of one dtype. `kind`: trainable, frozen, buffer, state (of an optimizer) or foreign (in no model)."""

    kind: str
    dtype: str
    tensors: int = 0
    elements: int = 0
    bytes: int = 0
    examples: Tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainableTensor:
    """A parameter that requires gradients. `optimized` is True if an optimizer holds it."""

    name: str
    dtype: str
    elements: int
    optimized: bool


@dataclass(frozen=True)
class CastTensor:
    """A parameter whose dtype changed after its optimizer was built."""

    name: str
    built_as: str
    now: str


@dataclass(frozen=True)
class ModelTables:
    """The models before the first step. `foreign` tensors are held by an optimizer, but belong to no called model.

    `uncalled` are the names of those foreign tensors that belong to a module that was not called.
    """

    device: Device = field(default_factory=Device)
    roots: Tuple[str, ...] = ()
    dtypes: Tuple[DtypeCount, ...] = ()
    trainable: Tuple[TrainableTensor, ...] = ()
    foreign: Tuple[DtypeCount, ...] = ()
    uncalled: Tuple[str, ...] = ()
    cast_after_optimizer: Tuple[CastTensor, ...] = ()
    reduce_dtype: Optional[str] = None


@dataclass(frozen=True)
class TrainedTensors:
    """How the steps changed the trained tensors.

    `gradients` contains the state of each tensor's gradient by step, and `moved` whether the steps changed the tensor.
    `put_back`: how often weights had their initial values again before a step. `nonfinite`: tensors that were finite
    before the first step and are not any more. `unoptimized_changed`: parameters that no optimizer holds have changed.
    """

    optimizers: Tuple[str, ...] = ()
    optimizer_state: Tuple[DtypeCount, ...] = ()
    gradients: Dict[str, Tuple[str, ...]] = field(default_factory=dict)
    moved: Dict[str, bool] = field(default_factory=dict)
    put_back: int = 0
    nonfinite: Tuple[str, ...] = ()
    weights_sum: float = 0.0
    unoptimized_changed: bool = False
    changed_between_steps: ChangedBetween = field(default_factory=ChangedBetween)
    untied: Optional[UntiedHead] = None
    average: HalfAverage = field(default_factory=HalfAverage)


class Misuse(str, Enum):
    """A wrong order of backward, unscale, clip, step and clear."""

    CLIPPED_LATE = "clipped after the step"
    CLIPPED_SCALED = "clipped while scaled"
    CLIPPED_WITH_SCALE = "clipped while scaled, to a limit that may carry the scale"
    BOUNDED_SCALED = "bounded by a constant while scaled"
    UNSCALED_TWICE = "scaled gradients added to gradients that were divided by the scale already"
    PARTLY_SCALED = "some backward passes of a step scaled, some not"
    UNSCALED_PLAIN = "gradients of an unscaled loss divided by the scale"
    APPLIED_SCALED = "scaled gradients applied"
    MANUAL_SCALE_KEPT = "gradients of a manually scaled loss used without dividing them by the scale"
    NOT_CLEARED = "gradients of the previous step not cleared"


@dataclass(frozen=True)
class GradientFlow:
    """How gradients were used. `unscaled`: how often they were unscaled correctly. `discarded`: how often they were
    cleared before any use.
    """

    misuses: Tuple[Misuse, ...] = ()
    unscaled: int = 0
    discarded: int = 0


@dataclass(frozen=True)
class ModuleOutputs:
    """Module outputs in the first forward passes. `largest`: float16 outputs by their largest absolute value.

    `autocast`: the autocast dtypes of layers with parameters, "off" without autocast.
    `uncalled`: modules with trainable parameters that were not called, although the module that contains them was.
    """

    modules: int = 0
    compiled: bool = False
    largest: Tuple[Tuple[str, float], ...] = ()
    nonfinite: Tuple[str, ...] = ()
    autocast: Tuple[str, ...] = ()
    uncalled: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Counterfactual:
    """The recomputed last batch. Gaps are relative to the largest absolute loss or logit. A gap is None if it was not
    computed. `why`: why the calls were not made or cannot be compared, or "". `value`: the loss. `draws`: the
    model draws random numbers, from the same state in each call. `wide_gap`: the gap to a call in float32.
    `padding_gap`: the gap to a call with other padding ids. `silence_gap`: the gap to a call with zeros as audio.
    `items_gap`: the gap to a call with twice the num_items_in_batch.
    """

    why: str = ""
    draws: bool = False
    value: Optional[float] = None
    finite: bool = True
    wide_gap: Optional[float] = None
    wide_finite: bool = True
    padding_gap: Optional[float] = None
    silence_gap: Optional[float] = None
    items_gap: Optional[float] = None


@dataclass(frozen=True)
class AttentionCalls:
    """Calls of scaled_dot_product_attention that use the same backend and dtype."""

    backend: str
    dtype: str
    device: str


@dataclass(frozen=True)
class AttentionTables:
    """The attention calls, and the attention implementations that the models' configs name (`configured`)."""

    calls: Tuple[AttentionCalls, ...] = ()
    configured: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Flags:
    """Single observations. `eval_mode`: the class of a model with trained weights that was called in eval mode, or "".

    `eval_effect`: the kind of its layers that eval mode changes: "dropout", the class of the layers, or "".

    `autocast_only_on_card`, `scaler_only_on_card`: the command requested autocast or a loss scaler, but PyTorch
    disabled it because there is no card. `accelerate_only_on_card`: Accelerate disabled autocast and the loss scaler.
    `float16_only_on_card`: autocast is bfloat16 because there is no card. `step_in_autocast_cache`: a forward pass used
    weights that autocast had cast before the optimizer changed them. `scheduled_after_skip`: the learning rate schedule
    advanced after a skipped step. `scheduled_at`: the line that advanced it.
    """

    eval_mode: str = ""
    eval_effect: str = ""
    autocast_off: bool = False
    autocast_only_on_card: bool = False
    scaler_only_on_card: bool = False
    accelerate_only_on_card: bool = False
    float16_only_on_card: bool = False
    scaled_by_hand: bool = False
    reentrant_without_gradient: bool = False
    scheduled_after_skip: bool = False
    scheduled_at: str = ""
    step_in_autocast_cache: bool = False


@dataclass(frozen=True)
class HalfEntry:
    """A place where half precision entered the process.

    `kind` is autocast, trained, frozen (parameters), accelerator or trainer. `file` and `line` are in the project, or
    empty if the project's code did not make the call. `installed` is the called package code, empty for torch. `source`
    is the environment variable that the value was read from.
    """

    kind: str
    dtype: str
    file: str = ""
    line: int = 0
    installed: str = ""
    source: str = ""
    tensors: int = 0
    example: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where half precision entered the process. `settings` are the project's settings files that the process opened.

    `runtime` lists the changes of `fixers: {runtime: auto}` in the process.
    """

    entries: Tuple[HalfEntry, ...] = ()
    settings: Tuple[str, ...] = ()
    argv: Tuple[str, ...] = ()
    runtime: Tuple[str, ...] = ()


@dataclass(frozen=True)
class RankReport:
    """The report of one process. `state`: running, done, exited or exception; `faults`: errors of the hooks themselves.

    `missing`: the parts of this report that could not be made, with the reason. They have their default values.
    `open_losses`: the losses of backward passes that no step followed. `zero_rate_from`: the step from which the
    learning rate schedule is 0 to the end.
    """

    rank: int
    state: str
    world: int = 1
    crash: Optional[Crash] = None
    faults: Tuple[str, ...] = ()
    missing: Dict[str, str] = field(default_factory=dict)
    steps: Tuple[Step, ...] = ()
    open_losses: Tuple[float, ...] = ()
    loss_dtypes: Tuple[str, ...] = ()
    has_scaler: bool = False
    zero_rate_from: Optional[int] = None
    model: ModelTables = field(default_factory=ModelTables)
    trained: TrainedTensors = field(default_factory=TrainedTensors)
    gradient_flow: GradientFlow = field(default_factory=GradientFlow)
    batches: BatchTables = field(default_factory=BatchTables)
    modules: ModuleOutputs = field(default_factory=ModuleOutputs)
    attention: AttentionTables = field(default_factory=AttentionTables)
    flags: Flags = field(default_factory=Flags)
    memory: Memory = field(default_factory=Memory)
    counterfactual: Optional[Counterfactual] = None
    provenance: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True)
class ProcessNote:
    """A Python process in which the hooks run. `fault` is the traceback if the hooks could not be installed."""

    pid: int
    command: Tuple[str, ...]
    torch: bool = False
    fault: str = ""


def write_json(path: str, value: Any) -> None:
    """Write a value of this module, or a mapping, to `path` as JSON, atomically."""
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w", encoding="utf-8") as file:
        json.dump(value if isinstance(value, dict) else dataclasses.asdict(value), file)
    os.replace(part, path)
