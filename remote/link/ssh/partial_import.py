"""Import a library without modules that it imports but that halfstep does not need."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType


@contextlib.contextmanager
def without(modules: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Until the end of the block, an import of one of `modules` returns a module with only these names, all None.

    A module that is already imported stays as it is.
    """
    added = {name: ModuleType(name) for name in modules if name not in sys.modules}
    for name, module in added.items():
        module.__dict__.update(dict.fromkeys(modules[name]))
    sys.modules.update(added)
    try:
        yield
    finally:
        for name in added:
            del sys.modules[name]
