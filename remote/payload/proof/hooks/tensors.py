"""Small measurements on tensors inside the training process: dtypes by kind, gradient states, changes of weights."""

from __future__ import annotations

import gc
import math
import re
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .foreign import named_parameters, parameters_in
from .report import DtypeCount

SAMPLE = 1024
EXAMPLES = 3
SUMMED_AT_ONCE = 2**22
WRAPPERS = re.compile(r"(^|\.)(_fsdp_wrapped_module|_orig_mod|_checkpoint_wrapped_module)(?=\.|$)")


def dtype_name(dtype: Any) -> str:
    """Return the dtype's name without `torch.`."""
    return str(dtype).replace("torch.", "")


def clean_name(name: str) -> str:
    """Return a parameter's name without the wrappers of DDP, FSDP, torch.compile and checkpointing."""
    name = WRAPPERS.sub("", name).lstrip(".")
    return name[len("module.") :] if name.startswith("module.") else name


def parameters_of(optimizer: Any) -> List[Any]:
    """Return every parameter that an optimizer holds, in order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def trained_by(optimizer: Any) -> List[Tuple[int, Any]]:
    """Return (index, parameter) for the optimizer's trained parameters. An optimizer may hold frozen parameters too."""
    held = list(enumerate(parameters_of(optimizer)))
    return [(at, p) for at, p in held if p.requires_grad or p.grad is not None] or held


def learning_rate(optimizer: Any) -> Optional[float]:
    """Return the highest learning rate of an optimizer's groups, or None if it has no rate (Adafactor, `lr=None`)."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return max((float(rate) for rate in rates if rate is not None), default=None)


def rate_in_schedule(optimizer: Any) -> bool:
    """Return True if a scheduler that starts from a rate above 0 sets this optimizer's rate."""
    return any(float(group.get("initial_lr", 0.0)) > 0 for group in optimizer.param_groups)


def local(tensor: Any) -> Any:
    """Return this rank's part of a distributed tensor, or any other tensor itself, detached."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def values_of(tensor: Any) -> Any:
    """Return a tensor's numbers as a dense real tensor.

    A sparse tensor is reduced to its values. Complex numbers become two real numbers.
    """
    torch = sys.modules["torch"]
    values = local(tensor)
    values = values._values() if values.is_sparse else values
    return torch.view_as_real(values) if values.is_complex() else values


def name_parameters(roots: Iterable[Any]) -> Dict[int, str]:
    """Return parameter names by id. The largest model comes first, so that a part called alone keeps its full name."""
    names: Dict[int, str] = {}
    ordered = sorted(roots, key=lambda root: -len(parameters_in(root)))
    for at, root in enumerate(ordered):
        prefix = "" if at == 0 else f"{type(root).__name__}."
        for name, parameter in named_parameters(root):
            names.setdefault(id(parameter), prefix + clean_name(name))
    return names


def living_names(wanted: Dict[int, Any]) -> Dict[int, str]:
    """Return names of these parameters by searching all live modules.

    The search is slow, so it is made only for tensors that are reported.
    """
    names = {key: name for key, (_, name) in _living_owners(wanted).items()}
    return {key: names.get(key, "(unnamed)") for key in wanted}


def name_uncalled(strays: Dict[int, Any]) -> Dict[int, str]:
    """Return unique names of parameters that belong to a live module, with the module's type in front.

    `strays` are parameters of no called model. A script may read the weight of a layer without calling the layer.
    """
    names: Dict[int, str] = {}
    for key, (owner, name) in _living_owners(strays).items():
        full = f"{type(owner).__name__}.{name}"
        names[key] = full if full not in names.values() else f"{full} ({len(names)})"
    return names


def _living_owners(wanted: Dict[int, Any]) -> Dict[int, Tuple[Any, str]]:
    """Return for each of these parameters the outermost live module that has it, and its name in this module."""
    torch = sys.modules["torch"]
    owners: Dict[int, Tuple[Any, str]] = {}
    for module in [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]:
        for name, parameter in named_parameters(module):
            cleaned = clean_name(name)
            if id(parameter) in wanted and len(cleaned) > len(owners.get(id(parameter), (None, ""))[1]):
                owners[id(parameter)] = module, cleaned
    return owners


def count_dtypes(rows: Iterable[Tuple[str, str, Any]]) -> Tuple[DtypeCount, ...]:
    """Count tensors, elements and bytes by (kind, dtype), with the first names of each group.

    `rows` are (kind, name, tensor).
    """
    table: Dict[Tuple[str, str], DtypeCount] = {}
    for kind, name, tensor in rows:
        key = (kind, dtype_name(tensor.dtype))
        before = table.get(key, DtypeCount(*key))
        table[key] = DtypeCount(
            *key,
            tensors=before.tensors + 1,
            elements=before.elements + tensor.numel(),
            bytes=before.bytes + tensor.numel() * tensor.element_size(),
            examples=(*before.examples, name)[:EXAMPLES],
        )
    return tuple(table.values())


def measure_gradients(parameters: List[Tuple[str, Any]]) -> Tuple[Dict[str, str], float]:
    """Return `none`, `zero`, `nonzero` or `nonfinite` by name, and the norm of all gradients.

    Waits for the device once.
    """
    torch = sys.modules["torch"]
    states = {name: "none" for name, _ in parameters}
    present = [(name, values_of(p.grad)) for name, p in parameters if p.grad is not None]
    present = [(name, grad) for name, grad in present if grad.numel()]
    if not present:
        return states, 0.0
    norms = [torch.linalg.vector_norm(grad, 2, dtype=_norm_dtype(torch, grad)) for _, grad in present]
    values = torch.stack([norm.double().to(norms[0].device) for norm in norms]).tolist()
    states.update((name, _state(value)) for (name, _), value in zip(present, values))
    return states, math.sqrt(sum(value * value for value in values))


def nonfinite_gradients(parameters: List[Tuple[str, Any]], most: int = 10) -> Tuple[str, ...]:
    """Return the first names of parameters whose gradients are not all finite."""
    states, _ = measure_gradients(parameters)
    return tuple(name for name, state in states.items() if state == "nonfinite")[:most]


def _norm_dtype(torch: Any, grad: Any) -> Any:
    # Squares of float16 gradients may overflow although the gradients do not.
    return torch.float64 if grad.dtype == torch.float64 else torch.float32


def _state(norm: float) -> str:
    if not math.isfinite(norm):
        return "nonfinite"
    return "nonzero" if norm else "zero"


def fingerprint(parameters: List[Tuple[str, Any]]) -> Dict[str, Tuple[Any, Any]]:
    """Return a small fingerprint of each tensor's values: a sample of them and their sum in float64."""
    fingerprints = {}
    for name, parameter in parameters:
        values = values_of(parameter).reshape(-1)
        if values.numel():
            stride = max(1, values.numel() // SAMPLE)
            fingerprints[name] = (values[::stride][:SAMPLE].clone(), _sum(values))
    return fingerprints


def _sum(values: Any) -> Any:
    """Return the sum of a flat tensor in float64.

    torch converts a tensor to float64 before it adds its values: the embeddings of Phi-4-multimodal would take 4.9 GB.
    """
    torch = sys.modules["torch"]
    sums = [torch.sum(block, dtype=torch.float64) for block in values.split(SUMMED_AT_ONCE)]
    return torch.stack(sums).sum() if len(sums) > 1 else sums[0]


def moved(before: Dict[str, Tuple[Any, Any]], after: Dict[str, Tuple[Any, Any]]) -> Dict[str, bool]:
    """Return by name whether a tensor's values differ between two fingerprints."""
    torch = sys.modules["torch"]
    return {
        name: not (torch.equal(sample, after[name][0]) and torch.equal(total, after[name][1]))
        for name, (sample, total) in before.items()
        if name in after
    }


def nonfinite(fingerprints: Dict[str, Tuple[Any, Any]]) -> List[str]:
    """Return the names of the tensors whose sum in the fingerprint is not finite.

    Waits for the device for each tensor.
    """
    return [name for name, (_, total) in fingerprints.items() if not math.isfinite(float(total))]


def read_losses(values: List[Any]) -> Tuple[float, ...]:
    """Copy losses from the device, and return them as numbers."""
    return tuple(float(local(value).float()) for value in values)
