"""Small measurements on tensors inside the training process: dtypes by kind, gradient states, marks of movement."""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Dict, Iterable, List, Tuple

SAMPLE = 1024
WRAPPERS = re.compile(r"(^|\.)(_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)(?=\.|$)")


def short(dtype: Any) -> str:
    """torch.float16 as `float16`."""
    return str(dtype).replace("torch.", "")


def clean_name(name: str) -> str:
    """A parameter's name without what DDP, FSDP, torch.compile and checkpointing put around modules."""
    name = WRAPPERS.sub("", name).lstrip(".")
    return name[len("module.") :] if name.startswith("module.") else name


def parameters_of(optimizer: Any) -> List[Any]:
    """Every parameter an optimizer changes, in its order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def trained_by(optimizer: Any) -> List[Tuple[int, Any]]:
    """What of it is trained, with its place: `model.parameters()` hands over frozen ones too."""
    held = list(enumerate(parameters_of(optimizer)))
    return [(at, p) for at, p in held if p.requires_grad or p.grad is not None] or held


def learning_rate(optimizer: Any) -> float:
    """The highest rate of an optimizer's groups."""
    return max((float(group.get("lr", 0.0)) for group in optimizer.param_groups), default=0.0)


def local(tensor: Any) -> Any:
    """This rank's part of a distributed tensor, detached; any other tensor itself, detached."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def name_parameters(roots: Iterable[Any]) -> Dict[int, str]:
    """Names by identity; the biggest model names first, so that a part called alone keeps its place in the whole."""
    names: Dict[int, str] = {}
    ordered = sorted(roots, key=lambda root: -sum(1 for _ in root.parameters()))
    for at, root in enumerate(ordered):
        prefix = "" if at == 0 else f"{type(root).__name__}."
        for name, parameter in root.named_parameters():
            names.setdefault(id(parameter), prefix + clean_name(name))
    return names


def count_dtypes(rows: Iterable[Tuple[str, str, Any]]) -> List[Dict[str, Any]]:
    """How many tensors, elements and bytes there are by (kind, dtype), with the first names of each."""
    table: Dict[Tuple[str, str], Dict[str, Any]] = {}
    for kind, name, tensor in rows:
        key = (kind, short(tensor.dtype))
        row = table.setdefault(
            key, {"kind": kind, "dtype": key[1], "tensors": 0, "elements": 0, "bytes": 0, "examples": []}
        )
        row["tensors"] += 1
        row["elements"] += tensor.numel()
        row["bytes"] += tensor.numel() * tensor.element_size()
        if len(row["examples"]) < 3:
            row["examples"].append(name)
    return list(table.values())


def measure_gradients(parameters: List[Tuple[str, Any]]) -> Tuple[Dict[str, str], float]:
    """`none`, `zero`, `nonzero` or `nonfinite` by name, and the norm of all gradients; one wait for the device."""
    torch = sys.modules["torch"]
    states = {name: "none" for name, _ in parameters}
    named = [(name, local(p.grad)) for name, p in parameters if p.grad is not None]
    named = [(name, grad._values() if grad.is_sparse else grad) for name, grad in named]
    named = [(name, grad) for name, grad in named if grad.numel()]
    if not named:
        return states, 0.0
    # The norm in float32: squares of float16 gradients overflow where the gradients themselves do not.
    norms = [torch.linalg.vector_norm(grad, 2, dtype=torch.float32) for _, grad in named]
    values = torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()
    total = 0.0
    for (name, _), value in zip(named, values):
        finite = math.isfinite(value)
        states[name] = "nonfinite" if not finite else "nonzero" if value else "zero"
        total += value * value
    return states, total**0.5


def mark(parameters: List[Tuple[str, Any]]) -> Dict[str, Tuple[Any, Any]]:
    """What each tensor's values are now, in a small space: a sample of them and their sum in float64."""
    torch = sys.modules["torch"]
    marks = {}
    for name, parameter in parameters:
        values = local(parameter).reshape(-1)
        if values.numel():
            stride = max(1, values.numel() // SAMPLE)
            marks[name] = (values[::stride][:SAMPLE].clone(), torch.sum(values, dtype=torch.float64))
    return marks


def moved(before: Dict[str, Tuple[Any, Any]], after: Dict[str, Tuple[Any, Any]]) -> Dict[str, bool]:
    """Whether a tensor's values differ, by name."""
    torch = sys.modules["torch"]
    return {
        name: not (torch.equal(sample, after[name][0]) and torch.equal(total, after[name][1]))
        for name, (sample, total) in before.items()
        if name in after
    }


def read_losses(values: List[Any]) -> List[float]:
    """Losses that were kept on the device, as numbers."""
    return [float(local(value).float()) for value in values]
