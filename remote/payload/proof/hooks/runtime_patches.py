"""Patch torch, Accelerate and transformers to apply a RuntimePlan. Installed before the recorder's hooks."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any, Dict, Iterable, List, Tuple

from .loss_scale import scaler_class
from .patching import Training, is_enabled, replace
from .recorder import Recorder
from .runtime import CHANGES, RuntimePlan
from .runtime_scaling import LossScaling, StepCalls
from .runtime_weights import Weights

MARK = "__halfstep_runtime__"
ACCELERATE = "ACCELERATE_MIXED_PRECISION"


class Runtime:
    """The state of the plan that is applied in this process."""

    def __init__(self, plan: RuntimePlan) -> None:
        self.plan = plan
        self.weights = Weights(plan)
        self.scaling = LossScaling(plan, self.weights)

    def install(self, recorder: Recorder, training: Training) -> None:
        """Patch torch, and patch Accelerate and transformers once they are imported. Patched functions are skipped."""
        torch = sys.modules["torch"]
        _patch_optimizers(self, StepCalls(recorder, training))
        _patch_parallel(torch, self)
        _patch_autocast(torch, self)
        _patch_scaler(torch, self)
        _patch_backward(torch, self, training)
        _patch_casts(torch, self)
        if self.plan.autocast == "float16":
            _patch_accelerate()
            _patch_trainer()


def _patch_optimizers(runtime: Runtime, calls: StepCalls) -> None:
    optimizer_class = sys.modules["torch.optim.optimizer"].Optimizer

    def add(original: Any) -> Any:
        def adding(self: Any, param_group: Any) -> None:
            if isinstance(param_group, dict):
                param_group["params"] = _listed(param_group.get("params", []))
                runtime.weights.prepare(_tensors([param_group["params"]]), type(self).__name__)
            original(self, param_group)
            runtime.weights.hold(self)

        return adding

    def init(original: Any) -> Any:
        def build(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
            if not hasattr(params, "dtype"):
                params = list(params)
                given = [one["params"] if isinstance(one, dict) else [one] for one in params]
                held = [list(_listed(some)) for some in given]
                for group, tensors in zip(params, held):
                    if isinstance(group, dict) and not isinstance(group["params"], set):
                        # A generator can be read only once.
                        group["params"] = tensors
                runtime.weights.prepare(_tensors(held), type(self).__name__)
            original(self, params, *args, **kwargs)
            replace(type(self), "step", step, MARK)

        return build

    def step(original: Any) -> Any:
        def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
            return runtime.scaling.step(original, self, args, kwargs, calls)

        return stepping

    replace(optimizer_class, "add_param_group", add, MARK)
    replace(optimizer_class, "__init__", init, MARK)


def _listed(parameters: Any) -> Any:
    """Return a generator's parameters as a list. Return a set unchanged, since the optimizer rejects sets."""
    if isinstance(parameters, set):
        return parameters
    return [parameters] if hasattr(parameters, "dtype") else list(parameters)


def _tensors(groups: Iterable[Iterable[Any]]) -> List[Any]:
    """Return the tensors of parameter groups, whose members may be pairs of name and tensor."""
    return [one[1] if isinstance(one, tuple) else one for group in groups for one in group]


def _patch_parallel(torch: Any, runtime: Runtime) -> None:
    def init(original: Any) -> Any:
        def build(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
            # DDP's buckets get the dtype that parameters have at this moment.
            runtime.weights.prepare(module.parameters(), type(self).__name__)
            original(self, module, *args, **kwargs)

        return build

    replace(torch.nn.parallel.DistributedDataParallel, "__init__", init, MARK)


def _patch_autocast(torch: Any, runtime: Runtime) -> None:
    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(original).bind(self, *args, **kwargs)
            enabled = bound.arguments.get("enabled", True)
            if enabled and runtime.plan.autocast == "float16" and _chosen(torch, bound.arguments) == torch.bfloat16:
                bound.arguments["dtype"] = torch.float16
                CHANGES.announce(f"autocast in float16 instead of bfloat16{CHANGES.at()}")
            original(*bound.args, **bound.kwargs)
            if enabled and getattr(self, "fast_dtype", None) == torch.float16:
                runtime.scaling.float16_autocast = True

        return build

    replace(torch.autocast, "__init__", init, MARK)


def _chosen(torch: Any, arguments: Dict[str, Any]) -> Any:
    """Return the dtype that an autocast context will use."""
    dtype = arguments.get("dtype")
    if dtype is None and hasattr(torch, "get_autocast_dtype"):
        return torch.get_autocast_dtype(arguments["device_type"])
    return dtype


def _patch_scaler(torch: Any, runtime: Runtime) -> None:
    def init(original: Any) -> Any:
        def build(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            if is_enabled(original, self, args, kwargs):
                runtime.scaling.script_scaler = True

        return build

    replace(scaler_class(torch), "__init__", init, MARK)


def _patch_backward(torch: Any, runtime: Runtime, training: Training) -> None:
    def backward(original: Any) -> Any:
        def run_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            scaling = runtime.scaling
            plain = isinstance(tensors, torch.Tensor) and tensors.numel() == 1 and not _is_weighted(args, kwargs)
            # The recorder's patch, which calls this patch, has already counted the outermost pass.
            if plain and training.backward_depth <= 1 and scaling.applies() and not scaling.inside_closure():
                return scaling.backward(original, tensors, args, kwargs)
            return original(tensors, *args, **kwargs)

        return run_backward

    replace(torch.autograd, "backward", backward, MARK)


def _is_weighted(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    """Return True if gradients are passed to backward, or if backward builds a graph of them (create_graph)."""
    names: List[str] = ["grad_tensors", "retain_graph", "create_graph", "grad_variables"]
    given = {**dict(zip(names, args)), **kwargs}
    return any(given.get(name) is not None for name in ("grad_tensors", "grad_variables")) or bool(
        given.get("create_graph")
    )


def _patch_casts(torch: Any, runtime: Runtime) -> None:
    depth = [0]

    def apply(original: Any) -> Any:
        def applying(self: Any, *args: Any, **kwargs: Any) -> Any:
            depth[0] += 1
            try:
                result = original(self, *args, **kwargs)
            finally:
                depth[0] -= 1
            if not depth[0]:
                runtime.weights.after_cast(self)
            return result

        return applying

    replace(torch.nn.Module, "_apply", apply, MARK)


def _patch_accelerate() -> None:
    """Change Accelerate's bf16 to fp16, for which Accelerate creates a scaler itself."""
    if os.environ.get(ACCELERATE, "").lower() == "bf16":
        os.environ[ACCELERATE] = "fp16"
        CHANGES.announce(f"{ACCELERATE} is fp16 instead of bf16")
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)

    def init(original: Any) -> Any:
        def build(self: Any, mixed_precision: Any = None, *args: Any, **kwargs: Any) -> None:
            chosen = mixed_precision or os.environ.get(ACCELERATE)
            if str(chosen).lower() == "bf16":
                CHANGES.announce(f"Accelerate uses fp16 instead of bf16{CHANGES.at()}")
                mixed_precision = "fp16"
            original(self, mixed_precision, *args, **kwargs)

        return build

    if state is not None:
        replace(state, "__init__", init, MARK)


def _patch_trainer() -> None:
    """Change bf16 in TrainingArguments to fp16, for which Trainer creates a scaler itself."""
    arguments = getattr(sys.modules.get("transformers.training_args"), "TrainingArguments", None)

    def post_init(original: Any) -> Any:
        def prepare(self: Any) -> None:
            for old, new in (("bf16", "fp16"), ("bf16_full_eval", "fp16_full_eval")):
                if getattr(self, old, False):
                    setattr(self, old, False)
                    setattr(self, new, True)
                    CHANGES.announce(f"{type(self).__name__} uses {new} instead of {old}{CHANGES.at()}")
            original(self)

        return prepare

    if arguments is not None:
        replace(arguments, "__post_init__", post_init, MARK)
