"""The project's readers of precision options, and the choice of a float16 spelling that all of them accept."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace

from fixers.sources.readers.reader import (
    ANY,
    FULL_SPELLINGS,
    HALF_SPELLINGS,
    NUMBER,
    Fields,
    Float16WhenOff,
    Overwritten,
    Reader,
    Unscaled,
    same_option,
)
from remote.protocol.dataclass import dataclass

PLAIN_BASES = frozenset(
    {"object", "BaseModel", "BaseSettings", "TypedDict", "NamedTuple", "Protocol", "ABC", "Generic"}
)
"""Base classes that declare no switches. Any other base class outside the project may declare every switch."""
SWITCHES = ("fp16", "use_fp16", "float16", "use_float16", "half", "use_half", "fp16_mixed", "mixed_fp16")
FROM_TRAINER = ("fp16", "fp16_full_eval")


@dataclass(frozen=True)
class BF16Value:
    """A bfloat16 value to replace: its option, the file that contains it, and the script that reads it, if known.

    `to_float32`: the value becomes float32, not float16. `plain`: the value is an unquoted YAML scalar, so 16 is a
    number.
    """

    option: str
    word: str
    path: str
    program: str = ""
    to_float32: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Spelling:
    """The new value. `refused_by`: the code that rejects every spelling. `declared`: the project declares this name."""

    word: str
    refused_by: Reader | Fields | Overwritten | Float16WhenOff | Unscaled | None = None
    declared: bool = False


@dataclass(frozen=True)
class Consumers:
    """The readers and settings classes of all files.

    `scripts`: the files that can be started. `selected`: the bfloat16 values that the project selects, or None if
    unknown.
    `locked`: readers that cannot accept a float16 value, because their file cannot be edited. `unscaled`: options that
    set the dtype of gradients in a project without loss scaling.
    """

    readers: tuple[Reader, ...] = ()
    fields: tuple[Fields, ...] = ()
    scripts: tuple[str, ...] = ()
    selected: tuple[BF16Value, ...] | None = None
    locked: tuple[Reader, ...] = ()
    unscaled: tuple[Unscaled, ...] = ()

    def readers_of(self, value: BF16Value) -> list[Reader]:
        """Return the readers that may read the value."""
        every = [
            each
            for each in self.readers
            if (each.option == ANY or same_option(each.option, value.option)) and each.accepts(value.word)
        ]
        scripts = {each.path for each in every} & set(self.scripts)
        if value.program:
            scripts = _named(scripts, value.program, value.path)
        near = {value.path} if value.path in self.scripts else _nearest(scripts, value.path)
        return [each for each in every if each.path not in self.scripts or each.path in near]

    def resolve(self, value: BF16Value, default: str) -> Spelling:
        """Return the spelling that every reader of the option accepts, or `default` if no reader restricts it."""
        if (unscaled := self._unscaled(value)) is not None:
            return Spelling(default, unscaled)
        relevant = self.readers_of(value)
        strict = [each for each in relevant if each.strict]
        spellings = FULL_SPELLINGS if value.to_float32 else HALF_SPELLINGS
        candidates = (default, *(each for each in spellings if each != default))
        for readers in (relevant, strict):
            for word in candidates:
                if all(each.accepts(_with_number_prefix(word, value)) for each in readers):
                    return Spelling(word)
        return Spelling(default, _refusing(strict, value, default))

    def _unscaled(self, value: BF16Value) -> Unscaled | None:
        """Return the option if it sets the dtype of gradients in a project without loss scaling, or None."""
        return next((each for each in self.unscaled if each.option == value.option and not value.to_float32), None)

    def resolve_switch(self, name: str, default: str, into_trainer: bool) -> Spelling:
        """Return the float16 switch that the classes with this bfloat16 switch declare.

        Return `default` if they declare none.
        """
        declaring = [each for each in self.fields if name in each.names]
        refused: Fields | None = None
        for word in (default, *(each for each in SWITCHES if each != default)):
            missing = [each for each in declaring if not self.declares(each, word)]
            if not missing or (into_trainer and word in FROM_TRAINER):
                return Spelling(word, declared=bool(declaring))
            refused = refused or missing[0]
        return Spelling(default, refused)

    def declares(self, fields: Fields, name: str, above: tuple[str, ...] = ()) -> bool:
        """Return True if the class or a base class declares the switch.

        Base classes outside the project may declare any switch.
        """
        if name in fields.names or (fields.declares_both and name in FROM_TRAINER):
            return True
        for base in fields.bases:
            inner = self.class_named(base)
            if inner is not None and base not in above and self.declares(inner, name, (*above, fields.name)):
                return True
            if inner is None and base not in PLAIN_BASES and not fields.declares_both:
                return True
        return False

    def refusing(self, name: str, counterpart: str) -> Fields | None:
        """Return a class that declares the switch without its float16 counterpart.

        Return None if another class declares both.
        """
        declaring = [each for each in self.fields if name in each.names]
        missing = [each for each in declaring if not self.declares(each, counterpart)]
        return missing[0] if missing and len(missing) == len(declaring) else None

    def class_named(self, name: str) -> Fields | None:
        """Return the project's class of this name, or None if the project has no such class or several."""
        named = [each for each in self.fields if each.name == name]
        return named[0] if len(named) == 1 else None

    def without(self, paths: Iterable[str]) -> Consumers:
        """Return a copy without the readers and values of these files."""
        excluded = frozenset(paths)
        readers = tuple(each for each in self.readers if each.path not in excluded)
        selected = self.selected and tuple(each for each in self.selected if each.path not in excluded)
        return replace(self, readers=readers, selected=selected)

    def locking(self, readers: Iterable[Reader]) -> Consumers:
        """Return a copy in which these readers are locked: a value that they would reject is not replaced."""
        all_parts = replace(self, locked=(*self.locked, *readers))
        return replace(all_parts, readers=tuple(map(all_parts._as_locked, self.readers)))

    def _as_locked(self, reader: Reader) -> Reader:
        locked = any(reader.is_same(each) for each in self.locked)
        return replace(reader, extensible=False) if locked else reader

    def with_file(self, path: str, readers: Iterable[Reader], script: bool) -> Consumers:
        """Return a copy with the current readers of this file."""
        others = tuple(each for each in self.readers if each.path != path)
        scripts = {*self.scripts, path} if script else set(self.scripts)
        return replace(self, readers=(*others, *map(self._as_locked, readers)), scripts=tuple(sorted(scripts)))


def merge_consumers(parts: Iterable[Consumers]) -> Consumers:
    """Return the union of the consumers of several files."""
    all_parts = list(parts)
    return Consumers(
        tuple(reader for each in all_parts for reader in each.readers),
        tuple(fields for each in all_parts for fields in each.fields),
        tuple(sorted({path for each in all_parts for path in each.scripts})),
        tuple(value for each in all_parts for value in each.selected or ()),
    )


def _refusing(readers: Iterable[Reader], value: BF16Value, word: str) -> Reader | None:
    """Return the reader that rejects the value, or None.

    Of several such readers, return the one with the most similar path.
    """
    refusing = [each for each in readers if not each.accepts(word) and not _will_accept(each, value)]
    return max(refusing, key=lambda each: _words_shared(each.path, value.path), default=None)


def _words_shared(one: str, other: str) -> int:
    """Return the number of words that both paths contain: a config often has the name of the script that reads it."""
    return len({*re.split(r"[/.]", one)} & {*re.split(r"[/.]", other)})


def _with_number_prefix(word: str, value: BF16Value) -> str:
    return NUMBER + word if value.plain and word.isdigit() else word


def _will_accept(reader: Reader, value: BF16Value) -> bool:
    return reader.extensible and not value.to_float32 and (reader.display or not value.word.endswith("true"))


def _named(scripts: set[str], program: str, path: str) -> set[str]:
    """Return the script `program` of a command in the file at `path`, or else every script with this file name."""
    places = {posixpath.normpath(posixpath.join(folder, program)) for folder in (posixpath.dirname(path), "")}
    return scripts & places or {each for each in scripts if posixpath.basename(each) == posixpath.basename(program)}


def _nearest(scripts: set[str], home: str) -> set[str]:
    """Return the scripts whose path has the longest common prefix with the file's path."""
    if not scripts:
        return set()
    shared = {each: len(posixpath.commonpath([f"/{each}", f"/{home}"])) for each in scripts}
    most = max(shared.values())
    return {each for each, length in shared.items() if length == most}
