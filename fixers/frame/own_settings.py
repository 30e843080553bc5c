"""Settings that the project's own Python code reads or declares: their keys and options must keep their names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fixers.sources.file_roles import is_jax, never_trains
from fixers.sources.trainer_names import ARGUMENTS, TRL_ARGUMENTS

RENAMED = tuple(key.encode() for key in (*ARGUMENTS, *TRL_ARGUMENTS))
BF16 = b"bf16"
KEY = rb"(\w*bf16\w*)"
OPTION = rb"(" + b"|".join(RENAMED) + rb")"
UNASSIGNED = rb"(?!\s*=[^=])"
ENTRY = rb"\[\s*[\"']%b[\"']\s*\]" + UNASSIGNED + rb"|\b(?:get|pop|getattr|hasattr)\([^()\n]*[\"']%b[\"']"
ENTRY_OF_KEYS = re.compile(ENTRY % (KEY, KEY))
ATTRIBUTE_OF_KEYS = re.compile(rb"\b((?:\w+\.)+)" + KEY + rb"\b" + UNASSIGNED)
OF_OPTIONS = re.compile(
    (ENTRY + rb"|\.%b\b|[\"']--?%b[\"']|^[ \t]+%b[ \t]*:") % (OPTION, OPTION, OPTION, OPTION, OPTION), re.MULTILINE
)
PARSED = re.compile(rb"ArgumentParser|TrlParser|TrainingArguments|Trainer\b")
OF_A_CONFIG = re.compile(rb"\b(?:\w*_)?(?:cfg|conf|config|hparams|hps?|opts?)\.")
OF_ARGUMENTS = re.compile(rb"\b(?:args?|ns|namespace)\.")
PARSERS = (b"HfArgumentParser", b"TrlParser")
INTO_TRAINER = re.compile(rb"\b(?:HfArgumentParser|TrlParser)\(")


@dataclass(frozen=True)
class OwnSettings:
    """`keys`: bfloat16 keys that the code reads from a config. `options`: renamed Trainer options that it uses.

    `into_trainer`: the project parses a command line or a file into Trainer arguments. `jax`: paths of Python files
    that use JAX. `scripts`: paths of scripts that never train.
    """

    keys: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    into_trainer: bool = False
    jax: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()


def judge_source(path: str, source: bytes) -> OwnSettings:
    """Return the settings that a Python file reads and declares, and what the file is for."""
    into_trainer = INTO_TRAINER.search(_lines_with(source, PARSERS)) is not None
    keys: set[bytes] = set()
    if about_keys := _lines_with(source, (BF16,)):
        keys = _names(ENTRY_OF_KEYS, about_keys)
        parses = PARSED.search(source) is not None
        for owners, name in ATTRIBUTE_OF_KEYS.findall(about_keys):
            if OF_A_CONFIG.search(owners) or (OF_ARGUMENTS.search(owners) and not parses):
                keys.add(name)
    options = _names(OF_OPTIONS, _lines_with(source, RENAMED))
    jax = (path,) if is_jax(source) else ()
    scripts = (path,) if never_trains(path, source) else ()
    return OwnSettings(_texts(keys), _texts(options), into_trainer, jax, scripts)


def _lines_with(source: bytes, words: Iterable[bytes]) -> bytes:
    """Return the lines that contain one of the words, so that the patterns above search a few lines, not the file."""
    found: dict[int, bytes] = {}
    for word in words:
        at = source.find(word)
        while at != -1:
            start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
            end = len(source) if end == -1 else end
            found[start] = source[start:end]
            at = source.find(word, end)
    return b"\n".join(found[start] for start in sorted(found))


def merge_own(parts: Iterable[OwnSettings]) -> OwnSettings:
    """Return the union of the settings of several files."""
    held = list(parts)
    keys = {name for each in held for name in each.keys}
    options = {name for each in held for name in each.options}
    into_trainer = any(each.into_trainer for each in held)
    jax = tuple(sorted(path for each in held for path in each.jax))
    scripts = tuple(sorted(path for each in held for path in each.scripts))
    return OwnSettings(tuple(sorted(keys)), tuple(sorted(options)), into_trainer, jax, scripts)


def _names(pattern: re.Pattern[bytes], source: bytes) -> set[bytes]:
    return {name for found in pattern.finditer(source) for name in found.groups() if name}


def _texts(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode("ascii", "ignore") for name in names))
