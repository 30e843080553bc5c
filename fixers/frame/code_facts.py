"""Settings that the project's own Python code reads or declares: their keys and options must keep their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fixers.frame.code_traits import Traits, merge_traits, traits_of, traits_of_text
from fixers.frame.config_keys import ENTRY, keys_of
from fixers.sources.commands import reads_commands
from fixers.sources.config_files import reads_config
from fixers.sources.file_roles import half_models_in, is_jax, never_trains
from fixers.sources.launched import is_document, launched_in
from fixers.sources.lines import lines_with
from fixers.sources.python import TREES
from fixers.sources.readers.bf16_values import bf16_values_in_python, bf16_values_in_text
from fixers.sources.readers.consumers import Consumers, Spelling, merge_consumers
from fixers.sources.readers.find import find_fields, find_readers, holds_readers, is_test
from fixers.sources.readers.reader import HalfWithout
from fixers.sources.trainer_names import ARGUMENTS, TRL_ARGUMENTS
from fixers.sources.unparsable import Unparsable

RENAMED = tuple(key.encode() for key in (*ARGUMENTS, *TRL_ARGUMENTS))
OPTION = rb"(" + b"|".join(RENAMED) + rb")"
OF_OPTIONS = re.compile(
    (ENTRY + rb"|\.%b\b|[\"']--?%b[\"']|^[ \t]+%b[ \t]*:") % (OPTION, OPTION, OPTION, OPTION, OPTION), re.MULTILINE
)
PARSERS = (b"HfArgumentParser", b"TrlParser")
INTO_TRAINER = re.compile(rb"\b(?:HfArgumentParser|TrlParser)\(")
IS_STARTED = (b"__main__", b"ArgumentParser", b"@click.command", b"typer.")


@dataclass(frozen=True)
class CodeFacts:
    """`keys`: bfloat16 keys that the code reads from a config. `options`: renamed Trainer options that it uses.

    `paired`: bfloat16 keys beside which the code reads a float16 key, and that it never reads without one.
    `into_trainer`: the project parses a command line or a file into Trainer arguments. `jax`: paths of Python files
    that use JAX. `scripts`: paths of scripts that never train. `half_models`: classes and functions, each after its
    path, that load or cast a model to half precision, or choose its dtype, themselves. `consumers`: what the code
    accepts as a precision. `traits`: the attention and the loss scaling of the code. `copies`: folders with the whole
    source of a library. `shared`: files that the code beside commands with `pure_bf16` imports. `float16_only`: dtypes
    of autocast that are float16 wherever the project sets them. `unselected`: policies of FSDP that no code selects on
    a card without bfloat16. `deepspeed_only`: modules that only trainings with DeepSpeed run.
    """

    keys: tuple[str, ...] = ()
    paired: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    into_trainer: bool = False
    jax: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    half_models: tuple[str, ...] = ()
    consumers: Consumers = field(default_factory=Consumers)
    traits: Traits = field(default_factory=Traits)
    copies: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    float16_only: tuple[str, ...] = ()
    unselected: tuple[str, ...] = ()
    deepspeed_only: tuple[str, ...] = ()

    def resolve_switch(self, name: str, default: str, path: str = "") -> Spelling:
        """Return the name of the float16 switch that the classes with the bfloat16 switch `name` declare.

        `path` is the dotted name of the switch, whose object the code may overwrite.
        """
        answer = self.consumers.resolve_switch(name, default, self.into_trainer)
        without = next((each for each in self.off_is_half if each.name == name), None)
        if without is not None:
            return replace(answer, refused=without)
        owner = path.rpartition(".")[0].rpartition(".")[2].lstrip("+-")
        for copied in self.traits.overwritten if answer.refused is None else ():
            if copied.name == answer.word and copied.owner == owner:
                return replace(answer, refused=copied)
        return replace(answer, declared=True) if name in self.paired else answer

    @property
    def off_is_half(self) -> tuple[HalfWithout, ...]:
        """The switches that select float16 when they are off. Trainer arguments have a separate fp16 switch."""
        return () if self.into_trainer else self.traits.off_is_half

    def stays_pure(self, path: str) -> bool:
        """Return True if commands beside the file select `pure_bf16`, and the code overwrites its float16 switch.

        Code that is imported there is left unchanged too, because it would mix float16 with the bfloat16 of the rest.
        """
        return path in self.shared or any(path.startswith(folder) for folder in self.pure_folders)

    @property
    def pure_folders(self) -> tuple[str, ...]:
        """The folders, each with a slash, whose commands select `pure_bf16` and cannot select float16 instead."""
        owners = self.traits.pure if self.traits.overwritten else ()
        kept = (folder for owner, folder in owners if self._keeps_pure(owner))
        return tuple(f"{folder}/" if folder else "" for folder in kept)

    def _keeps_pure(self, owner: str) -> bool:
        return self.resolve_switch("pure_bf16", "fp16", f"{owner}.pure_bf16").refused is not None


def reads_settings(path: str) -> bool:
    """Return True for a file that reads settings or gives them a value, or that shows commands."""
    return path.endswith(".py") or reads_config(path) or reads_commands(path) or is_document(path)


def judge_source(path: str, source: bytes) -> CodeFacts:
    """Return what a Python file reads and declares, and its role; of other files, their bfloat16 values and starts."""
    if is_document(path):
        return CodeFacts(traits=Traits(launched=launched_in(path, source)))
    if not path.endswith(".py"):
        consumers = Consumers(selected=bf16_values_in_text(path, source) or None)
        return CodeFacts(consumers=consumers, traits=traits_of_text(path, source))
    into_trainer = INTO_TRAINER.search(lines_with(source, PARSERS)) is not None
    keys = keys_of(source)
    options = _names(OF_OPTIONS, lines_with(source, RENAMED))
    jax = (path,) if is_jax(source) else ()
    scripts = (path,) if never_trains(path, source) else ()
    consumers, halves = _consumers(path, source), tuple(f"{path}:{each}" for each in half_models_in(source))
    named = (keys.alone, keys.paired, _texts(options))
    return CodeFacts(*named, into_trainer, jax, scripts, halves, consumers, traits_of(path, source))


def _consumers(path: str, data: bytes) -> Consumers:
    """Return the readers of the file, which is parsed only if it may contain one."""
    if is_test(path) or not holds_readers(data):
        return Consumers()
    try:
        source = TREES.read(path, data)
        readers = tuple(found.reader for found in find_readers(source))
        scripts = (path,) if is_started(data) else ()
        return Consumers(readers, find_fields(source), scripts, bf16_values_in_python(source))
    except Unparsable:
        return Consumers()


def is_started(data: bytes) -> bool:
    """Return True for a script, that is a file with options of its own or a main block."""
    return any(mark in data for mark in IS_STARTED)


def merge_facts(parts: Iterable[CodeFacts]) -> CodeFacts:
    """Return the union of the settings of several files."""
    held = list(parts)
    keys = _union(each.keys for each in held)
    return CodeFacts(
        keys,
        tuple(name for name in _union(each.paired for each in held) if name not in keys),
        _union(each.options for each in held),
        any(each.into_trainer for each in held),
        _union(each.jax for each in held),
        _union(each.scripts for each in held),
        _union(each.half_models for each in held),
        merge_consumers(each.consumers for each in held),
        merge_traits(each.traits for each in held),
    )


def _union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for each in parts for name in each}))


def _names(pattern: re.Pattern[bytes], source: bytes) -> set[bytes]:
    return {name for found in pattern.finditer(source) for name in found.groups() if name}


def _texts(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode("ascii", "ignore") for name in names))
