"""Small measurements on tensors inside the training process: dtypes by kind, gradient states, marks of movement."""

from __future__ import annotations

import math
import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

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


def learning_rate(optimizer: Any) -> Optional[float]:
    """The highest rate of an optimizer's groups; None where it keeps none in them, as Adafactor with `lr=None` does."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return max((float(rate) for rate in rates if rate is not None), default=None)


def rate_in_schedule(optimizer: Any) -> bool:
    """A schedule that starts from a rate above 0 sets this optimizer's rate."""
    return any(float(group.get("initial_lr", 0.0)) > 0 for group in optimizer.param_groups)


def local(tensor: Any) -> Any:
    """This rank's part of a distributed tensor, detached; any other tensor itself, detached."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def values_of(tensor: Any) -> Any:
    """The numbers of a tensor as a dense real one: the values of a sparse one, both parts of complex ones."""
    torch = sys.modules["torch"]
    values = local(tensor)
    values = values._values() if values.is_sparse else values
    return torch.view_as_real(values) if values.is_complex() else values


def name_parameters(roots: Iterable[Any]) -> Dict[int, str]:
    """Names by identity; the biggest model names first, so that a part called alone keeps its place in the whole."""
    names: Dict[int, str] = {}
    ordered = sorted(roots, key=lambda root: -sum(1 for _ in root.parameters()))
    for at, root in enumerate(ordered):
        prefix = "" if at == 0 else f"{type(root).__name__}."
        for name, parameter in root.named_parameters():
            names.setdefault(id(parameter), prefix + clean_name(name))
    return names


def living_names(wanted: Dict[int, Any]) -> Dict[int, str]:
    """The parameters' names, from every living module: slow, and done only when there is something to report."""
    import gc  # noqa: PLC0415 - only a training in trouble pays for it

    torch = sys.modules["torch"]
    names: Dict[int, str] = {}
    for module in [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]:
        for name, parameter in module.named_parameters():
            cleaned = clean_name(name)
            if id(parameter) in wanted and len(cleaned) > len(names.get(id(parameter), "")):
                names[id(parameter)] = cleaned
    return {key: names.get(key, "(unnamed)") for key in wanted}


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
    named = [(name, values_of(p.grad)) for name, p in parameters if p.grad is not None]
    named = [(name, grad) for name, grad in named if grad.numel()]
    if not named:
        return states, 0.0
    # Squares of float16 gradients overflow where the gradients themselves do not.
    wide = {torch.float64: torch.float64}
    norms = [torch.linalg.vector_norm(grad, 2, dtype=wide.get(grad.dtype, torch.float32)) for _, grad in named]
    values = torch.stack([norm.double().to(norms[0].device) for norm in norms]).tolist()
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
        values = values_of(parameter).reshape(-1)
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


def nonfinite(marks: Dict[str, Tuple[Any, Any]]) -> List[str]:
    """The names whose values are not all finite, by their sums; one wait for each tensor."""
    return [name for name, (_, total) in marks.items() if not math.isfinite(float(total))]


def read_losses(values: List[Any]) -> List[float]:
    """Losses that were kept on the device, as numbers."""
    return [float(local(value).float()) for value in values]
