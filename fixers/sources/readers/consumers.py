"""All readers of a project, and the float16 spelling that every reader of an option accepts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fixers.sources.readers.reader import (
    ANY,
    FULL_SPELLINGS,
    HALF_SPELLINGS,
    NUMBER,
    Fields,
    HalfWithout,
    Overwritten,
    Reader,
    Unscaled,
    same_option,
)

PLAIN_BASES = frozenset(
    {"object", "BaseModel", "BaseSettings", "TypedDict", "NamedTuple", "Protocol", "ABC", "Generic"}
)
"""Bases that declare no switches; any other base outside the project may declare every switch."""
SWITCHES = ("fp16", "use_fp16", "float16", "use_float16", "half", "use_half", "fp16_mixed", "mixed_fp16")
FROM_TRAINER = ("fp16", "fp16_full_eval")


@dataclass(frozen=True)
class BF16Value:
    """A bfloat16 value to be replaced: its option and place, and the script that reads it if that is known.

    `to_float32`: the value becomes float32, not float16. `plain`: an unquoted YAML scalar, so 16 is a number.
    """

    option: str
    word: str
    path: str
    program: str = ""
    to_float32: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Spelling:
    """The word to write; if no spelling is accepted everywhere, also the reader that rejects it.

    `declared`: the project declares the word itself.
    """

    word: str
    refused: Reader | Fields | Overwritten | HalfWithout | Unscaled | None = None
    declared: bool = False


@dataclass(frozen=True)
class Consumers:
    """`readers` and `fields` of all files; `scripts` are those of the files that can be started.

    `selected` are the values for bfloat16 that files of the project select; None if that is not known. `locked` are
    readers that get no float16 word, because the edit of their file is impossible. `unscaled` are options that set the
    dtype of gradients in a project that never scales its loss.
    """

    readers: tuple[Reader, ...] = ()
    fields: tuple[Fields, ...] = ()
    scripts: tuple[str, ...] = ()
    selected: tuple[BF16Value, ...] | None = None
    locked: tuple[Reader, ...] = ()
    unscaled: tuple[Unscaled, ...] = ()

    def of(self, value: BF16Value) -> list[Reader]:
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
        """Return the spelling that every reader of the option accepts; `default` where none restricts it."""
        if (unscaled := self._unscaled(value)) is not None:
            return Spelling(default, unscaled)
        relevant = self.of(value)
        strict = [each for each in relevant if each.strict]
        spellings = FULL_SPELLINGS if value.to_float32 else HALF_SPELLINGS
        candidates = (default, *(each for each in spellings if each != default))
        for readers in (relevant, strict):
            for word in candidates:
                if all(each.accepts(_typed(word, value)) for each in readers):
                    return Spelling(word)
        return Spelling(default, _refusing(strict, value, default))

    def _unscaled(self, value: BF16Value) -> Unscaled | None:
        """Return the option if the value selects the dtype of gradients that no loss scale protects."""
        return next((each for each in self.unscaled if each.option == value.option and not value.to_float32), None)

    def resolve_switch(self, name: str, default: str, into_trainer: bool) -> Spelling:
        """Return the name of the float16 switch in the classes that declare this one; `default` where none does."""
        declaring = [each for each in self.fields if name in each.names]
        refused: Fields | None = None
        for word in (default, *(each for each in SWITCHES if each != default)):
            missing = [each for each in declaring if not self.declares(each, word)]
            if not missing or (into_trainer and word in FROM_TRAINER):
                return Spelling(word, declared=bool(declaring))
            refused = refused or missing[0]
        return Spelling(default, refused)

    def declares(self, fields: Fields, name: str, above: tuple[str, ...] = ()) -> bool:
        """Return True if the class or one of its bases declares the switch, or may declare it outside the project."""
        if name in fields.names or (fields.declares_both and name in FROM_TRAINER):
            return True
        for base in fields.bases:
            inner = self.class_named(base)
            if inner is not None and base not in above and self.declares(inner, name, (*above, fields.name)):
                return True
            if inner is None and base not in PLAIN_BASES and not fields.declares_both:
                return True
        return False

    def refusing(self, name: str, twin: str) -> Fields | None:
        """Return a class that declares the switch and not its float16 twin, if no class declares both."""
        declaring = [each for each in self.fields if name in each.names]
        missing = [each for each in declaring if not self.declares(each, twin)]
        return missing[0] if missing and len(missing) == len(declaring) else None

    def class_named(self, name: str) -> Fields | None:
        """Return the project's class of this name; None if there is none or there are several."""
        named = [each for each in self.fields if each.name == name]
        return named[0] if len(named) == 1 else None

    def without(self, paths: Iterable[str]) -> Consumers:
        """Return the project without what these files read and select."""
        left_out = frozenset(paths)
        readers = tuple(each for each in self.readers if each.path not in left_out)
        selected = self.selected and tuple(each for each in self.selected if each.path not in left_out)
        return replace(self, readers=readers, selected=selected)

    def locking(self, readers: Iterable[Reader]) -> Consumers:
        """Return the project in which these readers get no float16 word, so that values that need one stay."""
        held = replace(self, locked=(*self.locked, *readers))
        return replace(held, readers=tuple(map(held._as_locked, self.readers)))

    def _as_locked(self, reader: Reader) -> Reader:
        locked = any(reader.is_same(each) for each in self.locked)
        return replace(reader, extensible=False) if locked else reader

    def with_file(self, path: str, readers: Iterable[Reader], script: bool) -> Consumers:
        """Return the project with this file's readers as they are now."""
        others = tuple(each for each in self.readers if each.path != path)
        scripts = {*self.scripts, path} if script else set(self.scripts)
        return replace(self, readers=(*others, *map(self._as_locked, readers)), scripts=tuple(sorted(scripts)))


def merge_consumers(parts: Iterable[Consumers]) -> Consumers:
    """Return the consumers of several files together."""
    held = list(parts)
    return Consumers(
        tuple(reader for each in held for reader in each.readers),
        tuple(fields for each in held for fields in each.fields),
        tuple(sorted({path for each in held for path in each.scripts})),
        tuple(value for each in held for value in each.selected or ()),
    )


def _refusing(readers: Iterable[Reader], value: BF16Value, word: str) -> Reader | None:
    """Return the reader that rejects the word and whose path is most like that of the value."""
    refusing = [each for each in readers if not each.accepts(word) and not _will_accept(each, value)]
    return max(refusing, key=lambda each: _words_shared(each.path, value.path), default=None)


def _words_shared(one: str, other: str) -> int:
    """Return how many words two paths share: a config is most often read by the script whose name it has."""
    return len({*re.split(r"[/.]", one)} & {*re.split(r"[/.]", other)})


def _typed(word: str, value: BF16Value) -> str:
    return NUMBER + word if value.plain and word.isdigit() else word


def _will_accept(reader: Reader, value: BF16Value) -> bool:
    return reader.extensible and not value.to_float32 and (reader.display or not value.word.endswith("true"))


def _named(scripts: set[str], program: str, path: str) -> set[str]:
    """Return the script that a command of the file at `path` starts, or else every script of that name."""
    places = {posixpath.normpath(posixpath.join(folder, program)) for folder in (posixpath.dirname(path), "")}
    return scripts & places or {each for each in scripts if posixpath.basename(each) == posixpath.basename(program)}


def _nearest(scripts: set[str], home: str) -> set[str]:
    """Return the scripts that share the longest path with the file."""
    if not scripts:
        return set()
    shared = {each: len(posixpath.commonpath([f"/{each}", f"/{home}"])) for each in scripts}
    most = max(shared.values())
    return {each for each, length in shared.items() if length == most}
