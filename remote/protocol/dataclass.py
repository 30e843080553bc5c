"""`dataclass` of the standard library in a tenth of the time: `__init__` is compiled when the first object is created.

The standard library compiles up to six methods of each class, which takes 0.4 ms. A finished `pipeline run` imports 180
of our dataclasses and creates objects of 80. Apart from that, the class is one of the standard library: `fields`,
`replace` and `asdict` accept it.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from dataclasses import field as field
from typing import TYPE_CHECKING, Any, NoReturn, Optional

Fields = Sequence[Field[Any]]
Values = Callable[[Any], Any]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind: Optional[type] = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
        """Add the methods of a dataclass to a class that inherits from no other dataclass."""
        return _with_methods(kind, frozen, eq) if kind is not None else lambda each: _with_methods(each, frozen, eq)


def _with_methods(kind: type, frozen: bool, eq: bool) -> type:
    # Without these methods, the standard library reads the fields and compiles nothing.
    dataclasses.dataclass(init=False, repr=False, eq=False)(kind)
    fields = dataclasses.fields(kind)
    methods: dict[str, Any] = {"__init__": _late_init(kind, fields, frozen), "__repr__": _repr(fields)}
    if eq:
        values = _values([each.name for each in fields if each.compare])
        methods["__eq__"] = _eq(values)
        methods["__hash__"] = (lambda self: hash(values(self))) if frozen else None
    if frozen:
        methods.update(__setattr__=_refuse_to_set, __delattr__=_refuse_to_delete)
    for name, method in methods.items():
        if kind.__dict__.get(name) is None:
            setattr(kind, name, method)
    return kind


def _late_init(kind: type, fields: Fields, frozen: bool) -> Callable[..., None]:
    """Return an `__init__` that replaces itself with the compiled one at its first call."""

    def first(self: object, *arguments: object, **named: object) -> None:
        init = _compiled_init(kind, fields, frozen)
        kind.__init__ = init  # type: ignore[misc]
        init(self, *arguments, **named)

    return first


def _compiled_init(kind: type, fields: Fields, frozen: bool) -> Callable[..., None]:
    parameters, body = ["self"], []
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    for each in fields:
        name = value = each.name
        names[f"_default_{name}"], names[f"_new_{name}"] = each.default, each.default_factory
        if each.default_factory is not MISSING:
            parameters += [f"{name}=_MISSING"] if each.init else []
            value = f"_new_{name}() if {name} is _MISSING else {name}" if each.init else f"_new_{name}()"
        elif each.init:
            parameters.append(name if each.default is MISSING else f"{name}=_default_{name}")
        else:
            continue  # The default is an attribute of the class.
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"]), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__, init.__module__ = f"{kind.__qualname__}.__init__", kind.__module__
    return init


def _values(names: Sequence[str]) -> Values:
    """Return a function that returns the values of an object's attributes as a tuple."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda each: tuple(getattr(each, name) for name in names)


def _eq(values: Values) -> Callable[[Any, Any], Any]:
    def equals(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _repr(fields: Fields) -> Callable[[Any], str]:
    names = [each.name for each in fields if each.repr]

    @reprlib.recursive_repr()
    def text(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return text


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
