"""Record which tensors are changed in place, also through `.data`, which does not increase their version counter."""

from __future__ import annotations

import functools
import sys
from typing import Any, Dict, List, Set

from .patching import is_compiling

METHODS = ("lerp_", "mul_", "add_", "copy_")


class Writes:
    """The tensors written between `open` and `close`, by id; the methods of torch.Tensor are wrapped only there."""

    def __init__(self) -> None:
        self.written: Set[int] = set()
        self._places: Dict[int, Any] = {}
        self._wrapped: List[str] = []

    def open(self, tensors: List[Any]) -> None:
        """Begin to record writes to these tensors."""
        self._places = {one.data_ptr(): one for one in tensors}
        owner = sys.modules["torch"].Tensor
        # torch.Tensor inherits these methods, so one that is defined on the class itself is another library's patch.
        self._wrapped += [name for name in METHODS if tensors and name not in vars(owner)]
        for name in self._wrapped:
            setattr(owner, name, self._noting(getattr(owner, name)))

    def close(self) -> None:
        """Restore the methods."""
        while self._wrapped:
            delattr(sys.modules["torch"].Tensor, self._wrapped.pop())

    def _noting(self, original: Any) -> Any:
        torch = sys.modules["torch"]

        @functools.wraps(original)
        def write(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling(torch):
                self._note(tensor)
            return original(tensor, *args, **kwargs)

        return write

    def _note(self, tensor: Any) -> None:
        try:
            place = tensor.data_ptr()
        except (RuntimeError, NotImplementedError):
            # A tensor without storage of its own.
            return
        known = self._places.get(place)
        # After a model was moved, other tensors may have its former memory.
        if known is not None and known.data_ptr() == place:
            self.written.add(id(known))
