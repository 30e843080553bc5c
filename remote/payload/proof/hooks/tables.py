"""Tables of the models and their optimizers: dtypes by kind, trained tensors, and which optimizer holds them."""

from __future__ import annotations

import sys
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from .device import describe_device
from .foreign import named_buffers, named_parameters, parameters_in, read
from .report import CastTensor, DtypeCount, ModelTables, TrainableTensor
from .tensors import clean_name, count_dtypes, dtype_name, name_parameters, parameters_of

CHANGES = 10

Row = Tuple[str, str, Any]


def describe(
    roots: List[Any],
    optimizers: List[Any],
    built_as: Dict[int, Dict[int, str]],
    built: List[Any],
    uncalled: Dict[int, str],
) -> ModelTables:
    """Return the tables of parameters and buffers. `built_as` maps parameters to dtypes at the optimizer's creation.

    `optimizers` have attempted a step. `built` are all optimizers that were created; some may take their first step
    much later. `uncalled` are the names of optimized parameters of modules that were not called.
    """
    names = name_parameters(roots)
    tracked = {id(p) for one in [*optimizers, *built] for p in parameters_of(one)}
    idle = _idle(roots, tracked)
    parameters = _without_duplicates([row for root in roots for row in _parameters(root, idle)])
    buffers = _without_duplicates(
        [("buffer", clean_name(name), b) for root in roots for name, b in named_buffers(root)]
    )
    held = [(one, p) for one in optimizers for p in parameters_of(one)]
    strays = _without(names, held)
    return ModelTables(
        device=describe_device(parameters[0][2] if parameters else None),
        roots=tuple(type(root).__name__ for root in roots),
        dtypes=count_dtypes(parameters + buffers),
        trainable=tuple(
            TrainableTensor(names[id(p)], dtype_name(p.dtype), p.numel(), id(p) in tracked)
            for kind, _, p in parameters
            if kind == "trainable"
        ),
        foreign=count_dtypes([("foreign", "", p) for p in strays]),
        uncalled=_names_of(strays, uncalled),
        cast_after_optimizer=tuple(_cast_late(held, built_as, names))[:CHANGES],
        reduce_dtype=_reduce_dtype(roots),
    )


def _without(names: Dict[int, str], held: List[Tuple[Any, Any]]) -> List[Any]:
    return [p for _, p in held if id(p) not in names]


def _names_of(parameters: List[Any], names: Dict[int, str]) -> Tuple[str, ...]:
    return tuple(names[id(p)] for p in parameters if id(p) in names)


def _parameters(root: Any, idle: Set[int]) -> Iterator[Row]:
    for name, parameter in named_parameters(root):
        trains = parameter.requires_grad and id(parameter) not in idle
        yield "trainable" if trains else "frozen", clean_name(name), parameter


def _idle(roots: List[Any], tracked: Set[int]) -> Set[int]:
    """Return the parameters of models that take no part in the training, such as one that was called to learn a shape.

    No optimizer holds any parameter of such a model, and none has a gradient, although another model's have. Without
    any gradient, as with DeepSpeed, all models count as trained.
    """
    parameters = [parameters_in(root) for root in roots]
    with_gradient = {id(p) for each in parameters for p in each if p.is_leaf and p.grad is not None}
    used = {id(p) for each in parameters if any(id(p) in with_gradient or id(p) in tracked for p in each) for p in each}
    return {id(p) for each in parameters for p in each} - used if with_gradient else set()


def _cast_late(
    held: List[Tuple[Any, Any]], built_as: Dict[int, Dict[int, str]], names: Dict[int, str]
) -> Iterator[CastTensor]:
    for optimizer, parameter in held:
        now = dtype_name(parameter.dtype)
        was = built_as.get(id(optimizer), {}).get(id(parameter), now)
        if was != now:
            yield CastTensor(names.get(id(parameter), "?"), was, now)


def state_dtypes(optimizers: List[Any]) -> Tuple[DtypeCount, ...]:
    """Return the dtypes of the optimizers' moments."""
    torch = sys.modules["torch"]
    rows: List[Row] = []
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for name, value in state.items() if hasattr(state, "items") else ():
                # Step counters are excluded: a counter is one number, while a moment has the parameter's shape.
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    rows.append(("state", str(name), value))
    return count_dtypes(rows)


def _without_duplicates(rows: List[Row]) -> List[Row]:
    """Return each tensor once.

    Duplicates come from tied weights, and from parts of a model that are called separately.
    """
    unique: Dict[int, Row] = {}
    for row in rows:
        unique.setdefault(id(row[2]), row)
    return list(unique.values())


def _reduce_dtype(roots: List[Any]) -> Optional[str]:
    """Return the dtype in which FSDP reduces gradients, or None without FSDP's mixed precision."""
    for root in roots:
        policy = read(root, "mixed_precision")
        dtype = read(policy, "reduce_dtype") or read(policy, "param_dtype")
        if dtype is not None:
            return dtype_name(dtype)
    return None
