"""Record which tensors are changed in place, including through `.data`, which does not increase the version counter."""

from __future__ import annotations

import functools
import sys
from typing import Any, Dict, List, Set

from .patching import is_compiling

METHODS = ("lerp_", "mul_", "add_", "copy_")


class Writes:
    """The ids of tensors written between `open` and `close`.

    The methods of torch.Tensor are wrapped only between these calls.
    """

    def __init__(self) -> None:
        self.written: Set[int] = set()
        self._places: Dict[int, Any] = {}
        self._wrapped: List[str] = []

    def open(self, tensors: List[Any]) -> None:
        """Start recording writes to these tensors."""
        self._places = {one.data_ptr(): one for one in tensors}
        owner = sys.modules["torch"].Tensor
        # torch.Tensor inherits these methods. A method that the class itself defines is a patch of another library.
        self._wrapped += [name for name in METHODS if tensors and name not in vars(owner)]
        for name in self._wrapped:
            setattr(owner, name, self._recording_wrapper(getattr(owner, name)))

    def close(self) -> None:
        """Restore the methods."""
        while self._wrapped:
            delattr(sys.modules["torch"].Tensor, self._wrapped.pop())

    def _recording_wrapper(self, original: Any) -> Any:
        torch = sys.modules["torch"]

        @functools.wraps(original)
        def write(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_compiling(torch):
                self._note(tensor)
            return original(tensor, *args, **kwargs)

        return write

    def _note(self, tensor: Any) -> None:
        try:
            address = tensor.data_ptr()
        except (RuntimeError, NotImplementedError):
            # The tensor has no storage of its own.
            return
        known = self._places.get(address)
        # After a model was moved, other tensors may occupy its former memory.
        if known is not None and known.data_ptr() == address:
            self.written.add(id(known))
