"""Keep edits consistent: a value is replaced only if every reader that must accept the new value can be edited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from fixers.frame.change import FileChange, Plan
from fixers.settings.precision_words import COUNTERPARTS
from fixers.sources.python import TREES
from fixers.sources.readers.consumers import Consumers
from fixers.sources.readers.find import find_readers
from fixers.sources.readers.reader import Reader
from fixers.sources.unparsable import Unparsable


def plan_dependent(consumers: Consumers, plan_with: Callable[[Consumers], Plan]) -> tuple[Plan, Consumers]:
    """Return a plan whose new values all readers accept, and the readers on which it is based.

    If a reader would reject a new value and the plan does not change the reader, the reader is locked: its values are
    not replaced. Then the plan is made again, until every reader accepts its new values.
    """
    plan = plan_with(consumers)
    while locked := list(_unedited(plan, consumers)):
        consumers = consumers.locking(locked)
        plan = plan_with(consumers)
    return plan, consumers


def _unedited(plan: Plan, consumers: Consumers) -> Iterator[Reader]:
    """Yield the readers that must accept a float16 value, but that the plan does not change."""
    after = {change.path: change.after for change in plan.changes if isinstance(change, FileChange)}
    now: dict[str, list[Reader]] = {}
    for reader in dict.fromkeys(_to_edit(consumers)):
        if reader.path in after and reader.path not in now:
            now[reader.path] = _readers_in(reader.path, after[reader.path])
        if any(reader.is_same(each) for each in now.get(reader.path, (reader,))):
            yield reader


def _to_edit(consumers: Consumers) -> Iterator[Reader]:
    """Yield the readers that accept a bfloat16 value and must also accept its float16 value."""
    for value in consumers.selected or ():
        spelling = consumers.resolve(value, COUNTERPARTS.get(value.word, value.word))
        if spelling.refused_by is None and not value.to_float32:
            yield from (each for each in consumers.readers_of(value) if each.strict and not each.accepts(spelling.word))


def _readers_in(path: str, data: bytes) -> list[Reader]:
    with suppress(Unparsable):
        return [found.reader for found in find_readers(TREES.read(path, data))]
    return []
