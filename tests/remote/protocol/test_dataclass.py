"""Our dataclasses behave like those of the standard library, and compile nothing before their first object."""

import ast
import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.protocol import dataclass as late
from remote.protocol.regular import read_regular

ROOT = Path(__file__).resolve().parents[3]
OWN = ROOT / "remote" / "protocol" / "dataclass.py"
HOOKS = ROOT / "remote" / "payload" / "proof" / "hooks"
Decorator = Callable[..., Any]


def make_point(decorator: Decorator) -> Any:
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list)

    return decorator(frozen=True)(Point)


def make_counter(decorator: Decorator) -> Any:
    class Counter:
        """A mutable class whose fields have all options, and a __post_init__."""

        name: str
        count: int = 0
        secret: str = dataclasses.field(default="s", repr=False)
        seen: float = dataclasses.field(default=0.0, compare=False)
        rows: list[int] = dataclasses.field(default_factory=list, init=False)
        total: int = dataclasses.field(default=5, init=False)

        def __post_init__(self) -> None:
            self.count += 1

    return decorator(Counter)


def make_empty(decorator: Decorator) -> Any:
    class Empty:
        """A class without fields."""

    return decorator(frozen=True)(Empty)


def make_one(decorator: Decorator) -> Any:
    class One:
        """A class with one field and its own text and hash."""

        value: tuple[int, ...] = ()

        def __repr__(self) -> str:
            return "one"

        def __hash__(self) -> int:
            return 7

    return decorator(frozen=True)(One)


def make_identity(decorator: Decorator) -> Any:
    class Identity:
        """A class whose objects are compared by identity."""

        value: int = 1

    return decorator(frozen=True, eq=False)(Identity)


CALLS: list[tuple[Callable[[Decorator], Any], tuple[object, ...], dict[str, object]]] = [
    (make_point, (1,), {}),
    (make_point, (1, 3), {"names": ["a"]}),
    (make_point, (), {"y": 2, "x": 1}),
    (make_counter, ("n",), {}),
    (make_counter, ("n", 4, "t", 1.5), {}),
    (make_empty, (), {}),
    (make_one, (), {}),
    (make_one, ((1, 2),), {}),
    (make_identity, (), {"value": 3}),
]


def outcome_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize(("make", "arguments", "named"), CALLS)
def test_objects_are_those_of_the_standard_library(
    make: Callable[[Decorator], Any], arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    def facts(decorator: Decorator) -> list[object]:
        kind = make(decorator)
        one, same = kind(*arguments, **named), kind(*arguments, **named)
        return [
            repr(one),
            (one == same, one != same, one == 3, copy.copy(one) == one),
            outcome_of(lambda: hash(one) == hash(same)),
            outcome_of(lambda: hash(one)) if kind.__hash__ is None or make is make_one else None,
            dataclasses.asdict(one),
            [(each.name, each.default, each.init, each.repr, each.compare) for each in dataclasses.fields(kind)],
            dataclasses.is_dataclass(kind),
            kind.__match_args__,
            repr(dataclasses.replace(one)),
            outcome_of(lambda: setattr(one, "x", 1)),
            outcome_of(lambda: setattr(one, "other", 1)),
            outcome_of(lambda: delattr(one, "x")),
        ]

    assert facts(late.dataclass) == facts(dataclasses.dataclass)


@pytest.mark.parametrize(("arguments", "named"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2})])
def test_wrong_arguments_raise_the_error_of_the_standard_library(
    arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    ours, theirs = make_point(late.dataclass), make_point(dataclasses.dataclass)
    expected = outcome_of(lambda: theirs(*arguments, **named))
    assert outcome_of(lambda: ours(*arguments, **named)) == expected
    assert outcome_of(lambda: ours(*arguments, **named)) == expected, "at the second call, too"


def test_each_object_has_its_own_default() -> None:
    kind = make_point(late.dataclass)
    kind(1).names.append("a")
    assert kind(1).names == []


def test_objects_of_two_equal_classes_differ() -> None:
    assert make_point(late.dataclass)(1) != make_point(late.dataclass)(1)


def test_init_is_compiled_with_the_first_object() -> None:
    kind = make_point(late.dataclass)
    before = kind.__init__.__code__
    kind(1)
    compiled = kind.__init__.__code__
    kind(2)
    assert before.co_filename == late.__file__
    assert (compiled.co_filename, compiled.co_varnames) == ("<string>", ("self", "x", "y", "names"))
    assert kind.__init__.__code__ is compiled


def test_no_other_method_is_compiled() -> None:
    kind = make_point(late.dataclass)
    one = kind(1)
    assert (repr(one).count("x=1"), one == kind(1)) == (1, True)
    methods = [getattr(kind, name) for name in ("__eq__", "__hash__", "__setattr__", "__delattr__")]
    assert {method.__code__.co_filename for method in methods} == {late.__file__}


@late.dataclass(frozen=True)
class Stored:
    """A class that pickle can import."""

    value: int
    parts: tuple[str, ...] = ()


def test_an_object_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Stored(1, ("a",)))) == Stored(1, ("a",))


def test_an_object_that_contains_itself_has_a_text() -> None:
    one = make_point(late.dataclass)(1)
    one.names.append(one)
    assert "x=1, y=2, names=[...]" in repr(one)


@pytest.mark.parametrize("package", ["pipeline", "fixers", "remote"])
def test_every_dataclass_of_the_program_is_compiled_late(package: str) -> None:
    found = [str(path) for path in dataclass_modules(ROOT / package, "dataclasses") if path != OWN]
    assert [path for path in found if not path.startswith(str(HOOKS))] == []


def test_the_hooks_in_the_training_process_use_the_standard_library() -> None:
    """They are copied into the process of the project's command, where our packages cannot be imported."""
    assert dataclass_modules(HOOKS, "dataclasses") != []
    assert dataclass_modules(HOOKS, "remote.protocol.dataclass") == []


def dataclass_modules(folder: Path, source: str) -> list[Path]:
    """Return the modules below the folder that import `dataclass` from `source`."""
    return [
        path
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(read_regular(str(path), 2**20)))
        if isinstance(node, ast.ImportFrom) and node.module == source and "dataclass" in [n.name for n in node.names]
    ]
