"""Recompute the last batch after the last step: in float32, with other padding ids, silent audio, or item counts.

All calls begin with the same random state, so that only the changed inputs can change the result. The process is paused
afterwards, so these calls cannot affect the training. Random states and modes are restored in any case.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .accumulation import ITEMS, unwrapped
from .inputs import is_varied_feature
from .modules import first_float
from .random_state import RandomState
from .report import Counterfactual
from .tensors import local, trained_by

LONGEST_CALL_S = 10.0
SAME = 1e-3
"""The largest gap between two equal calls of a deterministic model: a card may add numbers in another order."""
NOT_DETERMINISTIC = "the model is not deterministic: the same batch and random state give another result"
HALF = ("torch.float16", "torch.bfloat16")


@dataclass(frozen=True)
class ModelCall:
    """A model call with its arguments. `cast` is the dtype of autocast on `device`, or None without autocast.

    `random` is the state of the random number generators with which each call begins, or None to leave them unchanged.
    """

    root: Any
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    device: str
    cast: Optional[str]
    random: Optional[RandomState] = None

    def run(self, changed: Dict[str, Any], *, cast: bool = True) -> Any:
        """Return the loss in float32, or the logits if there is no loss; see `results`."""
        return next(iter(self.results(changed, cast=cast)), None)

    def results(self, changed: Dict[str, Any], *, cast: bool = True) -> List[Any]:
        """Return the loss and the logits in float32, as far as the model returns both.

        `changed` maps arguments to (tensor, replacement).
        """
        torch = sys.modules["torch"]
        by_id = {id(before): after for before, after in changed.values()}
        args = tuple(_with_replacements(arg, by_id) for arg in self.args)
        kwargs = {name: _with_replacements(value, by_id) for name, value in self.kwargs.items()}
        dtype = getattr(torch, self.cast) if cast and self.cast else None
        if self.random is not None:
            self.random.restore()
        with torch.autocast(self.device, dtype=dtype, enabled=dtype is not None):
            return _loss_and_logits(self.root(*args, **kwargs))


def examine(call: Optional[ModelCall], optimizer: Any, world: int, *, vary_items: bool = False) -> Counterfactual:
    """Return how much each recomputation changes the result, or why the batch could not be recomputed.

    `vary_items` adds a call with another num_items_in_batch.
    """
    if call is None:
        return Counterfactual(why="no model call could be repeated")
    try:
        if world > 1:
            why = "the command trains in more than one process"
            return Counterfactual(why=why, items_gap=_replica_items_gap(call) if vary_items else None)
        inside = {id(p) for p in call.root.parameters()}
        if any(id(p) not in inside for _, p in trained_by(optimizer)):
            return Counterfactual(why="the command calls parts of the model separately")
        with _unchanged(call.root) as random:
            return _examine(dataclasses.replace(call, random=random), random, vary_items)
    except Exception as error:  # noqa: BLE001 - a call that the script would never make may fail in any way
        return Counterfactual(why=f"the model could not be called again: {type(error).__name__}: {error}"[:200])


def _examine(call: ModelCall, random: RandomState, vary_items: bool) -> Counterfactual:
    began = time.perf_counter()
    base = call.run({})
    if base is None:
        return Counterfactual(why="the model returned no float tensor")
    draws = not random.is_current()
    total = float(base.sum())
    if time.perf_counter() - began > LONGEST_CALL_S:
        return Counterfactual(why=f"another call would take over {LONGEST_CALL_S:.0f} s")
    inputs = _tensor_arguments(call)
    if not _same(base, call.run({}), inputs):
        return Counterfactual(why=NOT_DETERMINISTIC)
    result: Dict[str, Any] = {"value": float(base) if base.numel() == 1 else None, "draws": draws}
    result["finite"] = abs(total) < float("inf")
    if call.cast or _half_owners(call.root):
        with _widened(call.root):
            wide = call.run({name: (value, _as_float32(value)) for name, value in inputs.items()}, cast=False)
        result.update(wide_gap=_gap(wide, base, inputs), wide_finite=abs(float(wide.sum())) < float("inf"))
    padded = _other_padding(inputs)
    if padded is not None:
        result["padding_gap"] = _gap(base, call.run({"input_ids": padded}), inputs)
    if vary_items:
        result["items_gap"] = _items_gap(call, base)
    return Counterfactual(**result, silence_gap=_silence_gap(call, inputs))


def _replica_items_gap(call: ModelCall) -> Optional[float]:
    """Return `_items_gap` of the module inside DistributedDataParallel, or None for any other model.

    A call of that module needs no other process.
    """
    if type(call.root).__name__ != "DistributedDataParallel":
        return None
    replica = dataclasses.replace(call, root=call.root.module)
    with _unchanged(replica.root) as random:
        replica = dataclasses.replace(replica, random=random)
        base = replica.run({})
        return _items_gap(replica, base) if base is not None and _same(base, replica.run({}), {}) else None


def _same(base: Any, again: Any, inputs: Dict[str, Any]) -> bool:
    """Return True if two equal calls had the same result, or if the result is not finite."""
    if not bool(base.isfinite().all()):
        return True
    return bool(base.shape == again.shape and _gap(base, again, inputs) <= SAME)


def _items_gap(call: ModelCall, base: Any) -> Optional[float]:
    """Return how much the loss changes if num_items_in_batch is doubled.

    Return None without this argument, or if the loss is 0 or not finite.
    """
    items = call.kwargs.get(ITEMS)
    if items is None or base.numel() != 1 or not 0.0 < abs(float(base)) < float("inf"):
        return None
    return _gap(base, dataclasses.replace(call, kwargs={**call.kwargs, ITEMS: items * 2}).run({}), {})


def _tensor_arguments(call: ModelCall) -> Dict[str, Any]:
    torch = sys.modules["torch"]
    given = next((dict(arg) for arg in call.args if hasattr(arg, "keys")), {})
    named = {**dict(zip(_positional_names(call), call.args)), **given, **call.kwargs}
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}


def _positional_names(call: ModelCall) -> List[str]:
    """Return the name of each positional argument in the signature of the model, or its index."""
    names: List[str] = []
    with contextlib.suppress(TypeError, ValueError):  # a forward without a signature
        parameters = inspect.signature(unwrapped(call.root).forward).parameters.values()
        names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return [names[at] if at < len(names) else str(at) for at in range(len(call.args))]


def _with_replacements(value: Any, by_id: Dict[int, Any]) -> Any:
    if isinstance(value, dict):
        return type(value)({name: by_id.get(id(one), one) for name, one in value.items()})
    return by_id.get(id(value), value)


def _loss_and_logits(output: Any) -> List[Any]:
    named = [_named(output, "loss"), _named(output, "logits")]
    tensors = [value for value in named if value is not None] or [first_float(output)]
    return [local(value).float() for value in tensors if value is not None]


def _named(output: Any, name: str) -> Any:
    """Return the value `name` of the model's output, or None if the output has no such value."""
    return output.get(name) if isinstance(output, dict) else getattr(output, name, None)


def _silence_gap(call: ModelCall, inputs: Dict[str, Any]) -> Optional[float]:
    """Return how much zeros as audio change the loss and the logits, or None if no audio features vary.

    Half precision rounds a small change of the loss to none. If nothing changed, the comparison is repeated in float32.
    """
    named = [(name, value) for name, value in inputs.items() if not name.isdigit()]
    silent = {name: (value, value * 0) for name, value in named if is_varied_feature(name, value)}
    if not silent:
        return None

    def gap(same: Dict[str, Any], changed: Dict[str, Any], *, cast: bool) -> float:
        pairs = zip(call.results(same, cast=cast), call.results({**same, **changed}, cast=cast))
        return max(_gap(base, other, inputs) for base, other in pairs)

    found = gap({}, silent, cast=True)
    if found or not (call.cast or _half_owners(call.root)):
        return found
    wide = {name: (value, _as_float32(value)) for name, value in inputs.items()}
    with _widened(call.root):
        return gap(wide, {name: (value, _as_float32(zeros)) for name, (value, zeros) in silent.items()}, cast=False)


def _gap(base: Any, other: Any, inputs: Dict[str, Any]) -> float:
    """Return the difference relative to the largest number of `base`, at attended positions only."""
    mask = inputs.get("attention_mask")
    if mask is not None and base.dim() > 2 and base.shape[:2] == mask.shape:
        base, other = base[mask != 0], other[mask != 0]
    return float((base - other).abs().max() / base.abs().max().clamp(min=1e-12))


def _other_padding(inputs: Dict[str, Any]) -> Optional[Tuple[Any, Any]]:
    """Return the input ids, and a copy with other text ids at the padding positions. Return None without padding."""
    torch = sys.modules["torch"]
    ids, mask = inputs.get("input_ids"), inputs.get("attention_mask")
    if ids is None or mask is None or ids.shape != mask.shape or ids.is_floating_point():
        return None
    outside, text = mask == 0, _text_ids(ids, mask != 0, inputs.get("labels"))
    count = int(outside.sum())
    if not count or not text.numel():
        return None
    changed = ids.clone()
    changed[outside] = text[torch.arange(count, device=ids.device) * 7 % text.numel()]
    return ids, changed


def _text_ids(ids: Any, attended: Any, labels: Any) -> Any:
    """Return ids of text tokens: of the answers if there are labels, and without placeholders for audio or images.

    A placeholder is repeated once for each frame or patch, and a model fails if there are more placeholders than
    features.
    """
    torch = sys.modules["torch"]
    same, repeated = ids[..., 1:] == ids[..., :-1], torch.zeros_like(attended)
    repeated[..., 1:] |= same
    repeated[..., :-1] |= same
    text = attended & ~torch.isin(ids, ids[repeated & attended])
    answers = text & (labels >= 0) if labels is not None and labels.shape == ids.shape else text
    return ids[answers if answers.any() else text]


def _as_float32(value: Any) -> Any:
    return value.float() if str(value.dtype) in HALF else value


def _half_owners(root: Any) -> List[Any]:
    """Return the modules that directly own parameters or buffers in half precision."""
    return [one for one in root.modules() if _half_tensors(one)]


def _half_tensors(module: Any) -> List[Any]:
    own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    return [tensor for tensor in own if str(tensor.dtype) in HALF]


@contextlib.contextmanager
def _widened(root: Any) -> Iterator[None]:
    """Make each module compute in float32.

    The half-precision tensors of a module are float32 only while the module is called.
    """
    originals: Dict[int, Any] = {}
    handles = []

    def widen(module: Any, args: Any) -> None:
        for tensor in _half_tensors(module):
            originals[id(tensor)] = (tensor, tensor.data)
            tensor.data = tensor.data.float()

    def narrow(module: Any, args: Any, output: Any) -> None:
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            original = originals.pop(id(tensor), None)
            if original is not None:
                tensor.data = original[1]

    for module in _half_owners(root):
        handles += [module.register_forward_pre_hook(widen), module.register_forward_hook(narrow)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for tensor, data in originals.values():
            tensor.data = data


@contextlib.contextmanager
def _unchanged(root: Any) -> Iterator[RandomState]:
    """Run in eval mode and without gradients. Modes and random states are restored. Yield the random state."""
    torch = sys.modules["torch"]
    modes = [(module, module.training) for module in root.modules()]
    random = RandomState.now()
    try:
        with torch.no_grad():
            root.eval()
            yield random
    finally:
        random.restore()
        for module, training in modes:
            module.training = training
