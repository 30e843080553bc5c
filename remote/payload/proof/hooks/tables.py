"""The tables over a model and its optimizers: dtypes by kind, what is trained, who holds it, what changed since."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from .device import describe_device
from .tensors import clean_name, count_dtypes, name_parameters, parameters_of, short

CHANGES = 10

Row = Tuple[str, str, Any]


def describe(
    roots: List[Any], optimizers: List[Any], built_as: Dict[int, Dict[int, str]], built: List[Any]
) -> Dict[str, Any]:
    """Everything about parameters and buffers; `built_as`: by optimizer, each parameter's dtype when it was made.

    `optimizers` have tried a step; `built` are all that were made, one of which may take its first step much later.
    """
    names = name_parameters(roots)
    rows = _once(
        [
            ("trainable" if p.requires_grad else "frozen", clean_name(name), p)
            for root in roots
            for name, p in root.named_parameters()
        ]
    )
    buffers = _once([("buffer", clean_name(name), b) for root in roots for name, b in root.named_buffers()])
    held = [(one, p) for one in optimizers for p in parameters_of(one)]
    tracked = {id(p) for one in [*optimizers, *built] for p in parameters_of(one)}
    return {
        "device": describe_device(rows[0][2] if rows else None),
        "dtypes": count_dtypes(rows + buffers),
        "roots": [{"class": type(root).__name__, "training": root.training} for root in roots],
        "trainable": [
            {"name": names[id(p)], "dtype": short(p.dtype), "elements": p.numel(), "optimized": id(p) in tracked}
            for _, _, p in rows
            if p.requires_grad
        ],
        "strangers": sum(1 for _, p in held if id(p) not in names),
        "strange": count_dtypes([("strange", "", p) for _, p in held if id(p) not in names]),
        "changed_dtype": _changed(held, built_as, names)[:CHANGES],
        "reduce_dtype": _reduce_dtype(roots),
    }


def _changed(held: List[Tuple[Any, Any]], built_as: Dict[int, Dict[int, str]], names: Dict[int, str]) -> List[Any]:
    changed = []
    for optimizer, parameter in held:
        now = short(parameter.dtype)
        was = built_as.get(id(optimizer), {}).get(id(parameter), now)
        if was != now:
            changed.append([names.get(id(parameter), "?"), was, now])
    return changed


def state_dtypes(optimizers: List[Any]) -> List[Dict[str, Any]]:
    """The dtypes of the optimizers' moments."""
    torch = sys.modules["torch"]
    rows: List[Row] = []
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for name, value in state.items() if hasattr(state, "items") else ():
                # A step counter is one number; moments have the parameter's shape.
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    rows.append(("state", str(name), value))
    return count_dtypes(rows)


def _once(rows: List[Row]) -> List[Row]:
    """Each tensor once: weights may be tied, and a part of a model may be a root too."""
    seen: Dict[int, Row] = {}
    for row in rows:
        seen.setdefault(id(row[2]), row)
    return list(seen.values())


def _reduce_dtype(roots: List[Any]) -> Optional[str]:
    """What FSDP reduces gradients in, where a root says so."""
    for root in roots:
        policy = getattr(root, "mixed_precision", None)
        dtype = getattr(policy, "reduce_dtype", None) or getattr(policy, "param_dtype", None)
        if dtype is not None:
            return short(dtype)
    return None
