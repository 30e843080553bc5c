"""Find commands that never start: they pass an option that the script's parser of Trainer arguments rejects."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress

from fixers.sources.commands import reads_commands
from fixers.sources.expressions import tail_of
from fixers.sources.launched import CONTINUED, OPTION, Launched, scripts_of
from fixers.sources.python import TREES, PythonSource
from fixers.sources.trainer_fields import FIELDS
from fixers.sources.unparsable import Unparsable

REJECTED = "commands with an option that their script rejects"
PARSES_ALL = b"parse_args_into_dataclasses"
PARSES_OTHERS = (b"return_remaining_strings", b"parse_known_args")
"""Calls that reject unknown options, and calls that accept them."""
ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
MOST_CLASSES = 50
"""The number of classes of arguments that are followed. The fields of further classes are unknown."""
Seen = dict[str, frozenset[str] | None]


def rejected_commands(
    paths: Iterable[str], launched: Iterable[Launched], entries: Collection[str], read: Callable[[str], bytes]
) -> frozenset[str]:
    """Return the files of commands that start scripts of the project, and only with an option that these reject."""
    found: set[str] = set()
    starts = list(launched)
    for path in filter(reads_commands, paths):
        own = [(each, script) for each in starts if each.path == path for script in scripts_of(each, entries)]
        with suppress(OSError):
            if own and all(_rejects(read(path), each, read(script), script) for each, script in own):
                found.add(path)
    return frozenset(found)


def _rejects(commands: bytes, launched: Launched, code: bytes, script: str) -> bool:
    """Return True if each command with the script passes an option that is no field of its arguments."""
    fields = accepted_by(script, code)
    name = launched.script.encode()
    lines = [line.partition(name)[2] for line in CONTINUED.sub(b" ", commands).splitlines() if name in line]
    return bool(fields and lines) and all(any(_is_unknown(each, fields) for each in _options(line)) for line in lines)


def _options(line: bytes) -> Iterator[str]:
    command = line.partition(b" #")[0]
    yield from (each.decode().replace("-", "_") for each in OPTION.findall(command))


def _is_unknown(name: str, fields: Collection[str]) -> bool:
    """Return True if no field has this name or begins with it. Booleans also have an option `--no_NAME`."""
    return not any(field.startswith((name, name.removeprefix("no_"))) for field in fields)


def accepted_by(path: str, code: bytes) -> frozenset[str]:
    """Return the fields of all arguments that the script parses, or nothing if some may be unknown.

    The script has one `HfArgumentParser`, which gets classes of this file or of transformers, and rejects others.
    """
    if code.count(b"HfArgumentParser(") != 1 or PARSES_ALL not in code or any(each in code for each in PARSES_OTHERS):
        return frozenset()
    with suppress(Unparsable):
        source = TREES.read(path, code)
        return _union(source, _parsed(source), {}) or frozenset()
    return frozenset()


def _parsed(source: PythonSource) -> list[ast.expr]:
    """Return the classes that the parser gets."""
    calls = [each for each in source.names.of_type(ast.Call) if tail_of(each) == "HfArgumentParser"]
    given = [each for call in calls for each in call.args[:1]]
    return [part for each in given for part in (each.elts if isinstance(each, (ast.Tuple, ast.List)) else [each])]


def _union(source: PythonSource, classes: Iterable[ast.expr], seen: Seen) -> frozenset[str] | None:
    """Return the fields of the classes, or None if some are unknown. `seen`: the fields of classes by name."""
    fields = [_fields_of(source, each, seen) for each in classes]
    known = [each for each in fields if each is not None]
    return frozenset().union(*known) if len(known) == len(fields) else None


def _fields_of(source: PythonSource, node: ast.expr, seen: Seen) -> frozenset[str] | None:
    """Return the fields of the class and its bases, or None if they are unknown."""
    if source.names.meaning(node) in ARGUMENTS:
        return FIELDS
    name = getattr(node, "id", "")
    own = [each for each in source.names.of_type(ast.ClassDef) if each.name == name]
    if name in seen or len(own) != 1 or len(seen) == MOST_CLASSES:
        return seen.get(name)
    seen[name] = None  # a class that derives from itself
    inherited = _union(source, own[0].bases, seen)
    targets = [each.target for each in own[0].body if isinstance(each, ast.AnnAssign)]
    if inherited is not None:
        seen[name] = inherited.union(each.id for each in targets if isinstance(each, ast.Name))
    return seen[name]
