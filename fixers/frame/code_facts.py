"""Facts about the project's Python code that fixers need: the settings that it reads, and what each file does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from fixers.frame.code_traits import Traits, merge_traits, traits_of, traits_of_text
from fixers.frame.config_keys import ENTRY, keys_of
from fixers.sources.bf16_switches import switches_in
from fixers.sources.commands import reads_commands
from fixers.sources.config_files import reads_config
from fixers.sources.file_roles import half_models_in, is_jax, never_trains
from fixers.sources.flash_defaults import flash_defaults_in
from fixers.sources.launched import is_document, launched_in
from fixers.sources.lines import holds_any, lines_with, may_name
from fixers.sources.python import TREES
from fixers.sources.readers.bf16_values import bf16_values_in_python, bf16_values_in_text
from fixers.sources.readers.consumers import Consumers, Spelling, merge_consumers
from fixers.sources.readers.find import find_fields, find_readers, is_test, may_contain_readers
from fixers.sources.readers.reader import Float16WhenOff
from fixers.sources.trainer_names import ARGUMENTS, TRL_ARGUMENTS
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass, field

RENAMED = tuple(key.encode() for key in (*ARGUMENTS, *TRL_ARGUMENTS))
NAMES = frozenset(RENAMED)
OPTION = rb"(" + b"|".join(RENAMED) + rb")"
OF_OPTIONS = re.compile(
    (ENTRY + rb"|\.%b\b|[\"']--?%b[\"']|^[ \t]+%b[ \t]*:") % (OPTION, OPTION, OPTION, OPTION, OPTION), re.MULTILINE
)
PARSERS = (b"HfArgumentParser", b"TrlParser")
TRL_CONFIG = re.compile(
    rb"\b(?:TrlParser|HfArgumentParser)\(\(?[^()]*\b(?:SFT|DPO|GRPO|KTO|ORPO|CPO|RLOO|PPO|GKD|BCO|XPO|PRM|Reward)\w*Config\b"
)
INTO_TRAINER = re.compile(rb"\b(?:HfArgumentParser|TrlParser)\(")
IS_STARTED = (b"__main__", b"ArgumentParser", b"@click.command", b"typer.")


@dataclass(frozen=True)
class CodeFacts:
    """Facts about the project's Python code.

    `keys`: bfloat16 keys that the code reads from a config without reading a float16 key.
    `paired`: bfloat16 keys that the code reads from a config, always together with a float16 key.
    `options`: old names of Trainer options that the project also defines for its own options. These are not renamed.
    `into_trainer`: the project parses a command line or a file into Trainer arguments.
    `jax`: paths of Python files that use JAX.
    `scripts`: paths of scripts that never train.
    `half_models`: `path:name` of classes and functions that load or cast a model to half precision.
    `namesakes`: files with the same name as a file that creates half-precision models, casts to float32, or uses
    DeepSpeed's engine.
    `consumers`: the code that reads precision values (readers and settings classes), which decides which values are
    accepted.
    `traits`: how the code computes attention and scales its loss.
    `copies`: folders that contain the complete source of a library.
    `shared`: files that code in `pure_folders` imports.
    `float16_only`: autocast dtypes that are float16 in every assignment of the project.
    `unselected`: FSDP policies that no code selects on a card without bfloat16.
    `deepspeed_only`: modules that run only under DeepSpeed.
    `engines`: `path:name` of functions and classes that train with DeepSpeed's engine.
    `on_machines`: files that select a device by rank and run on several machines, because commands or a config start
    their scripts there. `in_processes`: files with a `device_map` that run in several processes, likewise. None if the
    commands of the project were not read.
    `flash_defaults`: arguments with FlashAttention as their default, if some call omits the argument.
    `uncalled` and `only_inference`: `path:name` of functions that nothing calls, or that only inference scripts call.
    `unused_defaults`: functions (`path:name`) in which fixers would change only defaults that every call overrides or
    that the function does not read; dataclass fields (`path:Class.field`) that every call passes; and options
    (`path:--name`) that every command passes.
    `untaken`: arguments (`path:function?argument`) and options (`path:?option`) that select a branch and are never
    passed.
    `trl_scripts`: scripts that parse arguments of TRL.
    `bf16_on` and `bf16_off`: the bfloat16 switches that settings, commands and defaults turn on or off.
    `bf16_passed`: the bfloat16 options that commands pass, and those that documents and messages name.
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
    engines: tuple[str, ...] = ()
    on_machines: tuple[str, ...] | None = None
    in_processes: tuple[str, ...] | None = None
    uncalled: tuple[str, ...] = ()
    only_inference: tuple[str, ...] = ()
    unused_defaults: tuple[str, ...] = ()
    untaken: tuple[str, ...] = ()
    namesakes: tuple[str, ...] = ()
    trl_scripts: tuple[str, ...] = ()
    flash_defaults: tuple[str, ...] = ()
    bf16_on: tuple[str, ...] = ()
    bf16_off: tuple[str, ...] = ()
    bf16_passed: tuple[str, ...] = ()

    def is_off(self, switch: str) -> bool:
        """Return True if settings of the project turn the bfloat16 switch off, and none turns it on."""
        return switch.lower() in self.bf16_off and switch.lower() not in self.bf16_on

    def resolve_switch(self, name: str, default: str, path: str = "") -> Spelling:
        """Return the float16 switch declared by the classes that declare the bfloat16 switch `name`.

        `path` is the dotted name of the switch, such as `train_config.bf16`. If the project overwrites the float16
        switch of `train_config`, the result is marked as refused.
        """
        spelling = self.consumers.resolve_switch(name, default, self.into_trainer)
        without = next((each for each in self.off_is_half if each.name == name), None)
        if without is not None:
            return replace(spelling, refused_by=without)
        owner = path.rpartition(".")[0].rpartition(".")[2].lstrip("+-")
        for copied in self.traits.overwritten if spelling.refused_by is None else ():
            if copied.name == spelling.word and copied.owner == owner:
                return replace(spelling, refused_by=copied)
        return replace(spelling, declared=True) if name in self.paired else spelling

    @property
    def off_is_half(self) -> tuple[Float16WhenOff, ...]:
        """The bfloat16 switches that select float16 when they are off. A project with Trainer arguments has none."""
        return () if self.into_trainer else self.traits.off_is_half

    def stays_pure(self, path: str) -> bool:
        """Return True if the file must keep bfloat16: it is in `pure_folders`, or a file in these folders imports it.

        If the imported file used float16, the program would mix both dtypes.
        """
        return path in self.shared or any(path.startswith(folder) for folder in self.pure_folders)

    @property
    def pure_folders(self) -> tuple[str, ...]:
        """The folders whose commands select `pure_bf16` and cannot select float16 instead.

        Each path ends with a slash.
        """
        owners = self.traits.pure if self.traits.overwritten else ()
        kept = (folder for owner, folder in owners if self._keeps_pure(owner))
        return tuple(f"{folder}/" if folder else "" for folder in kept)

    def _keeps_pure(self, owner: str) -> bool:
        return self.resolve_switch("pure_bf16", "fp16", f"{owner}.pure_bf16").refused_by is not None


NO_FACTS = CodeFacts()


def reads_settings(path: str) -> bool:
    """Return True for a file name of Python code, settings, commands or documentation."""
    return path.endswith(".py") or reads_config(path) or reads_commands(path) or is_document(path)


def judge_source(path: str, source: bytes) -> CodeFacts:
    """Return the facts about one file.

    For settings, commands and documents, these are only bfloat16 values and launches.
    """
    on, off, passed = switches_in(source)
    if is_document(path):
        return CodeFacts(traits=Traits(launched=launched_in(path, source)), bf16_on=on, bf16_passed=passed)
    if not path.endswith(".py"):
        consumers = Consumers(selected=bf16_values_in_text(path, source) or None)
        facts = CodeFacts(consumers=consumers, traits=traits_of_text(path, source))
        return replace(facts, bf16_on=on, bf16_off=off, bf16_passed=passed)
    into_trainer = INTO_TRAINER.search(lines_with(source, PARSERS)) is not None
    keys = keys_of(source)
    options = _names(OF_OPTIONS, lines_with(source, RENAMED)) if may_name(source, NAMES) else set()
    jax = (path,) if is_jax(source) else ()
    scripts = (path,) if never_trains(path, source) else ()
    consumers, halves = _consumers(path, source), tuple(f"{path}:{each}" for each in half_models_in(source))
    named = (keys.unpaired, keys.paired, _texts(options))
    trl = (path,) if into_trainer and b"trl" in source and TRL_CONFIG.search(source) else ()
    traits, defaults = traits_of(path, source), flash_defaults_in(path, source)
    facts = CodeFacts(*named, into_trainer, jax, scripts, halves, consumers, traits, trl_scripts=trl)
    return replace(facts, flash_defaults=defaults, bf16_on=on, bf16_off=off, bf16_passed=passed)


def _consumers(path: str, data: bytes) -> Consumers:
    """Return the code in the file that reads precision values.

    The file is parsed only if a text search suggests such code.
    """
    if is_test(path) or not may_contain_readers(data):
        return Consumers()
    try:
        source = TREES.read(path, data)
        readers = tuple(found.reader for found in find_readers(source))
        scripts = (path,) if is_started(data) else ()
        return Consumers(readers, find_fields(source), scripts, bf16_values_in_python(source))
    except (Unparsable, RecursionError):
        return Consumers()


def is_started(data: bytes) -> bool:
    """Return True for a script: a file that parses options or has a main block."""
    return holds_any(data, IS_STARTED)


def merge_facts(parts: Iterable[CodeFacts]) -> CodeFacts:
    """Return the union of the facts about several files."""
    parts_list = list(parts)

    def union(field_name: str) -> tuple[str, ...]:
        return _union(getattr(each, field_name) for each in parts_list)

    keys = union("keys")
    return CodeFacts(
        keys,
        tuple(name for name in union("paired") if name not in keys),
        union("options"),
        any(each.into_trainer for each in parts_list),
        union("jax"),
        union("scripts"),
        union("half_models"),
        merge_consumers(each.consumers for each in parts_list),
        merge_traits(each.traits for each in parts_list),
        trl_scripts=union("trl_scripts"),
        flash_defaults=union("flash_defaults"),
        bf16_on=union("bf16_on"),
        bf16_off=union("bf16_off"),
        bf16_passed=union("bf16_passed"),
    )


def _union(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({name for each in parts for name in each}))


def _names(pattern: re.Pattern[bytes], source: bytes) -> set[bytes]:
    return {name for found in pattern.finditer(source) for name in found.groups() if name}


def _texts(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode("ascii", "ignore") for name in names))
