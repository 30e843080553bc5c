"""Find half-precision averages that lose their updates to rounding.

An average of trained weights, such as `decay * average + (1 - decay) * weight`, rounds back to itself if the update is
below the precision of its dtype.
"""

from __future__ import annotations

import gc
import itertools
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from .tensors import SAMPLE, dtype_name
from .weights_report import HalfAverage
from .writes import Writes

HALF = ("float16", "bfloat16")
COMPARED = 32
LEAST_BEHIND = 16
SHARE_FOLLOWING = 0.02


@dataclass
class _Copy:
    """A copy of a trained tensor, with its values at the last call of `look`.

    `behind` and `following` describe its last update: the distance to the weights, and whether it moved towards them.
    """

    name: str
    tensor: Any
    original: Any
    version: int
    sample: Any
    behind: int = 0
    following: int = 0


class Averages:
    """Compares the copies before each step with their values before the previous step.

    Only copies that were written to are judged, so a frozen reference model is not judged.
    """

    def __init__(self) -> None:
        self._copies: List[_Copy] = []
        self._writes = Writes()

    def begin(self, trained: List[Tuple[str, Any]]) -> None:
        """Find the half-precision copies of these tensors. A copy is recognised by its values."""
        known = {copy.original.data_ptr() for copy in self._copies} | {copy.tensor.data_ptr() for copy in self._copies}
        fresh = [(name, one) for name, one in trained if _is_plain(one) and one.data_ptr() not in known]
        self._copies += _find_copies(fresh)

    @property
    def any(self) -> bool:
        """True if there are copies.

        Copies are updated after a step, so the proof then ends at the next backward pass.
        """
        return bool(self._copies)

    def after_step(self) -> None:
        """Start recording writes to the copies."""
        self._writes.close()
        self._writes.open([copy.tensor for copy in self._copies])

    def before_forward(self) -> None:
        """Stop recording writes, because averages are updated between a step and the next batch."""
        self._writes.close()

    def look(self) -> None:
        """Record which copies were written since the last look, and whether they follow the trained weights."""
        self._writes.close()
        for copy in self._copies:
            version, now = copy.tensor._version, _sample(copy.tensor)
            written = version != copy.version or id(copy.tensor) in self._writes.written
            if written and now.shape == copy.sample.shape:
                target = _sample(copy.original).to(now)
                behind = copy.sample != target
                copy.behind = int(behind.sum())
                copy.following = int((behind & (now != copy.sample)).sum())
            copy.version, copy.sample = version, now
        self._writes.written.clear()

    def summary(self) -> HalfAverage:
        """Return how many copies can be judged by their last update, and which of them do not follow the weights."""
        judged = [copy for copy in self._copies if copy.behind >= LEAST_BEHIND]
        stuck = [copy for copy in judged if copy.following < SHARE_FOLLOWING * copy.behind]
        dtypes = sorted({dtype_name(copy.tensor.dtype) for copy in stuck})
        return HalfAverage(len(judged), tuple(sorted(copy.name for copy in stuck)), tuple(dtypes))


def _find_copies(trained: List[Tuple[str, Any]]) -> List[_Copy]:
    torch = sys.modules["torch"]
    dtypes = [getattr(torch, name) for name in HALF]
    originals = {_key(one, _sample(one).to(dtype)): (name, one) for name, one in trained for dtype in dtypes}
    shapes, trained_pointers = {one.shape for _, one in trained}, {one.data_ptr() for _, one in trained}
    # Tensors of subclasses are skipped: they belong to distributed or quantized tensors, and libraries write to them.
    kinds = {torch.Tensor, torch.nn.Parameter}
    objects = gc.get_objects()
    copies: Dict[int, _Copy] = {}
    # There may be a million objects. compress and map examine them without a line of Python for each.
    for one in itertools.compress(objects, map(kinds.__contains__, map(type, objects))):
        if one.dtype in dtypes and one.shape in shapes and _is_plain(one) and one.data_ptr() not in trained_pointers:
            sample = _sample(one)
            name, original = originals.get(_key(one, sample), ("", None))
            # A constant tensor may equal another tensor by chance.
            if original is not None and bool((sample != sample[0]).any()):
                copies.setdefault(one.data_ptr(), _Copy(name, one, original, one._version, sample))
    return list(copies.values())


def _key(tensor: Any, sample: Any) -> Tuple[Any, ...]:
    return (tensor.shape, sample.dtype, *sample[:COMPARED].tolist())


def _is_plain(tensor: Any) -> bool:
    """Return True if the tensor's numbers and its version counter can be read."""
    torch = sys.modules["torch"]
    readable = tensor.layout == torch.strided and tensor.device.type != "meta" and not tensor.is_inference()
    return bool(readable and tensor.is_floating_point() and tensor.numel())


def _sample(tensor: Any) -> Any:
    values = tensor.detach().reshape(-1)
    return values[:: max(1, values.numel() // SAMPLE)][:SAMPLE].clone()
