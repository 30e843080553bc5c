"""What one Python file or notebook contributes to a training program: its imports, and whether it trains or starts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from posixpath import basename, splitext
from typing import Any

from fixers.sources.file_roles import INFERS
from fixers.sources.lines import lines_with
from fixers.sources.splice import line_of

FROM = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^\n#;]*)", re.MULTILINE)
IMPORT = re.compile(rb"^[ \t]*import[ \t]+([\w. \t,]+)", re.MULTILINE)
NAME = re.compile(rb"\w+(?:[ \t]+as[ \t]+\w+)?")
TRAINS = re.compile(rb"\b\w*Trainer\w*\(|\.backward\(|\.fit\(|\bTrainingArguments\(|\binit_trainer\(")
TRAINING_WORDS = (b"Trainer", b".backward(", b".fit(", b"TrainingArguments", b"init_trainer")
STARTS = (
    *(b"__main__", b"argv", b"ArgumentParser", b"TrlParser"),
    *(b"@click.command", b"typer.", b"fire.Fire", b"hydra.main"),
)
DYNAMIC = re.compile(rb"\bimportlib\b|\b__import__\(|\binstantiate\(|\bget_class\(|\bLightningCLI\b")
PARSES = re.compile(rb"\b(?:HfArgumentParser|TrlParser)\b|\bTrainingArguments\(|\bLightningCLI\b")
HALF = re.compile(rb"fp16|float16|\.half\b|16-mixed")
HALF_WORDS = (b"fp16", b"float16", b".half", b"16-mixed")
SCALES = re.compile(
    rb"GradScaler|\bAccelerator\(|Trainer\(|TrainingArguments|deepspeed|\bFabric\(|lightning|loss_scale|scale_loss"
)
DYNAMIC_WORDS = (b"importlib", b"__import__(", b"instantiate(", b"get_class(", b"LightningCLI")
PARSES_WORDS = (b"ArgumentParser", b"TrlParser", b"TrainingArguments(", b"LightningCLI")
SCALES_WORDS = (
    *(b"GradScaler", b"Accelerator(", b"Trainer(", b"TrainingArguments", b"deepspeed", b"Fabric(", b"lightning"),
    *(b"loss_scale", b"scale_loss"),
)
"""Each match of a pattern contains one of its words; a search for words is much faster than one for the pattern."""
REFUSES = re.compile(
    rb"^[ \t]*(?:el)?if\b[^\n]*?(?<![!\w])(?:==|\bis\b|\bin\b)[^\n]*\b(?:float16|fp16|half)\b[^\n]*:[^\n]*\n"
    rb"(?:[ \t]*#[^\n]*\n)*[ \t]*raise\b|^[ \t]*assert\b[^\n]*(?:!=|\bnot\b)[^\n]*\b(?:float16|fp16|half)\b",
    re.MULTILINE,
)
OWN_ATTENTION = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+flash_attn\b|\b_supports_(?:sdpa|flash_attn\w*)\b"
    rb"|\bdef[ ]+\w+\([^)]*\buse_flash_att",
    re.MULTILINE,
)
"""Attention of the project itself, whose other branch may not run, or may compute something else."""


@dataclass(frozen=True)
class Module:
    """One file. `imports` are dotted names, relative ones with their dots; of `from a import b`, a and a.b.

    `starts`: it can be started. `infers`: its name is that of a script that uses a trained model. `dynamic`: it imports
    modules whose names are values. `parses`: it parses Trainer arguments. `half`: it names float16. `scales`: it scales
    a loss, or uses a library that does. `refuses`: its first line that raises an error for float16, or 0.
    `attends`: the first line of attention of its own, or 0.
    """

    path: str
    imports: tuple[str, ...] = ()
    trains: bool = False
    starts: bool = False
    infers: bool = False
    dynamic: bool = False
    parses: bool = False
    half: bool = False
    scales: bool = False
    refuses: int = 0
    attends: int = 0

    def as_row(self) -> list[Any]:
        """Return the module as plain values: decoding thousands of dataclasses by their annotations is slow."""
        return [self.path, list(self.imports), *(getattr(self, each.name) for each in fields(self)[2:])]

    @staticmethod
    def of_row(row: list[Any]) -> Module:
        return Module(row[0], tuple(row[1]), *row[2:])


def read_module(path: str, source: bytes) -> Module:
    """Return what the file contributes, judged by its text."""
    refused = REFUSES.search(source) if _may_refuse(source) else None
    attention = OWN_ATTENTION.search(source) if b"flash_att" in source or b"_supports_sdpa" in source else None
    return Module(
        path,
        tuple(dict.fromkeys(_imports(source))),
        trains=TRAINS.search(lines_with(source, TRAINING_WORDS)) is not None,
        starts=path.endswith(".ipynb") or any(mark in source for mark in STARTS),
        infers=INFERS.search(splitext(basename(path))[0].lower()) is not None,
        dynamic=_finds(DYNAMIC, source, DYNAMIC_WORDS),
        parses=_finds(PARSES, source, PARSES_WORDS),
        half=HALF.search(lines_with(source, HALF_WORDS)) is not None,
        scales=_finds(SCALES, source, SCALES_WORDS),
        refuses=line_of(source, refused.start()) if refused else 0,
        attends=line_of(source, attention.start()) if attention else 0,
    )


def _finds(pattern: re.Pattern[bytes], source: bytes, words: tuple[bytes, ...]) -> bool:
    return any(word in source for word in words) and pattern.search(lines_with(source, words)) is not None


def _may_refuse(source: bytes) -> bool:
    named = any(word in source for word in (b"float16", b"fp16", b"half"))
    return named and (b"raise" in source or b"assert" in source)


def _imports(source: bytes) -> Iterator[str]:
    if b"import" not in source:
        return
    for module, names in FROM.findall(source):
        dotted = module.decode()
        yield dotted
        joint = "" if dotted.endswith(".") else "."
        for name in NAME.findall(names):
            yield f"{dotted}{joint}{name.split()[0].decode()}"
    for names in IMPORT.findall(source):
        yield from (each.split()[0].decode() for each in names.split(b",") if each.split())
