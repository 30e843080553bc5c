"""Find the losses of a program that a loss scale would not multiply, because autograd functions attach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from fixers.plans.doubts import Doubt
from fixers.plans.owners import Owners
from fixers.plans.programs import Program
from fixers.plans.reached import Reach
from fixers.sources.attached_losses import NEEDLES, attaching_classes, sets_scale
from fixers.sources.lines import holds
from fixers.sources.python import TREES, PythonSource
from fixers.sources.unparsable import Unparsable

ATTACHED = "{where} attaches a loss whose gradient no loss scale multiplies, so that float16 would weaken this loss"


def of_attached_losses(program: Program, owners: Owners) -> Iterator[Doubt]:
    """Yield a doubt for each autograd function of the program that attaches a loss, unless the program scales it."""
    for path in sorted(program.paths):
        found = _attaching(path, program, owners.reach) if owners.facts.of(path, _may_attach) else ()
        for name, line in found:
            if not any(sets_scale(source, name) for source in _naming(name, program, owners.reach)):
                where = f"{path}:{line}"
                yield Doubt(ATTACHED.format(where=where), where)


def _may_attach(text: bytes) -> bool:
    return all(each in text for each in NEEDLES)


def _attaching(path: str, program: Program, reach: Reach) -> Iterator[tuple[str, int]]:
    """Yield the name and the line of each reached class in the module that attaches a loss."""
    with suppress(OSError, Unparsable):
        reached = reach.of(program)
        for each in attaching_classes(TREES.read(path, reach.read(path))):
            if reached is None or (path, "", each.name) in reached:
                yield each.name, each.lineno


def _naming(name: str, program: Program, reach: Reach) -> Iterator[PythonSource]:
    """Yield the modules of the program whose text contains the name."""
    for path in sorted(program.paths):
        with suppress(OSError, Unparsable):
            text = reach.read(path)
            if holds(text, name.encode()):
                yield TREES.read(path, text)
