"""Look at models and other objects of the user's program, whose properties and methods may raise any exception."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, Tuple

Named = List[Tuple[str, Any]]


def result_of(call: Callable[[], Any], otherwise: Any = None) -> Any:
    """Return the result of `call`, or `otherwise` if it raises."""
    try:
        return call()
    except Exception:  # noqa: BLE001 - the user's code may raise anything, and its author does not expect this call
        return otherwise


def read(owner: Any, *names: str, otherwise: Any = None) -> Any:
    """Return the attribute `names[0]` of `owner`, or the attribute `names[1]` of that, and so on.

    Return `otherwise` if an attribute does not exist, is None or raises.
    """
    for name in names:
        owner = result_of(functools.partial(getattr, owner, name, None))
        if owner is None:
            return otherwise
    return owner


def items_of(mapping: Any) -> Dict[Any, Any]:
    """Return a mapping as a dict, or an empty dict if it cannot be read."""
    return dict(result_of(lambda: dict(mapping), {}))


def named_parameters(module: Any) -> Named:
    """Return the names and parameters of a module, or of its base class if the module's own method is unusable."""
    return _named(module, "named_parameters", sys.modules["torch"].Tensor)


def named_buffers(module: Any) -> Named:
    """Return the names and buffers of a module, as `named_parameters` does."""
    return _named(module, "named_buffers", sys.modules["torch"].Tensor)


def named_modules(module: Any) -> Named:
    """Return the names and modules of a module, itself included, as `named_parameters` does."""
    return _named(module, "named_modules", sys.modules["torch"].nn.Module)


def parameters_in(module: Any) -> List[Any]:
    """Return the parameters of a module. A project may override `parameters()` to return groups for an optimizer."""
    return [parameter for _, parameter in named_parameters(module)]


def _named(module: Any, method: str, kind: type) -> Named:
    # A module whose __init__ was not called has no parameters that can be listed.
    original = getattr(sys.modules["torch"].nn.Module, method)
    for call in (read(module, method), functools.partial(original, module)):
        rows = result_of(functools.partial(_listed, call))
        if rows is not None and all(_is_row(row, kind) for row in rows):
            return list(rows)
    return []


def _listed(call: Callable[[], Any]) -> List[Any]:
    return list(call())


def _is_row(row: Any, kind: type) -> bool:
    return type(row) is tuple and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], kind)
