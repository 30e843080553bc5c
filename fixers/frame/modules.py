"""The role of one Python file or notebook in a program: its imports, and whether it trains or can be started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from posixpath import basename, splitext
from typing import Any

from fixers.sources.file_roles import INFERS, OF_EVALUATION, SCALES, is_for_accelerator, is_foreign
from fixers.sources.float16_refusals import line_that_refuses
from fixers.sources.lines import LinePattern, holds, holds_any, line_spans, strings_of_notebook
from fixers.sources.python_text import map_python
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass

FROM = re.compile(rb"[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\((?:[^()#]|#[^\n]*+)*+\)|[^\n#;]*)")
IMPORT = re.compile(rb"[ \t]*import[ \t]+([\w. \t,]+)")
NAME = re.compile(rb"\w+(?:[ \t]+as[ \t]+\w+)?")
TRAINS = LinePattern(
    re.compile(
        rb"\b(?=\w*Trainer)\w*+\(|\.backward\(|\.fit\(|\bTrainingArguments\(|\binit_trainer\(|\btrainer\.train\("
    ),
    (b"Trainer", b".backward(", b".fit(", b"TrainingArguments", b"init_trainer", b"trainer.train("),
)
STARTS = (
    *(b"__main__", b"argv", b"ArgumentParser", b"TrlParser"),
    *(b"@click.command", b"typer.", b"fire.Fire", b"hydra.main"),
)
OPTIMIZES = LinePattern(
    re.compile(
        rb"\b(?=\w*Trainer)\w*+\(|\b(?=\w*loss)\w*+\.backward\(|\.step\(|\.fit\(|\bTrainingArguments\(|\binit_trainer\("
    ),
    (b"Trainer", b"backward(", b".step(", b".fit(", b"TrainingArguments", b"init_trainer"),
)
"""Matches training in a file that defines differentiable functions. There, `.backward(` alone is no sign of
training."""
DYNAMIC = LinePattern(
    re.compile(
        rb"\b(?:import_module|__import__)\("
        rb"(?![ \t]*(?:[\"'][^\"'\n]*[\"']|(?:type\([\w.]+\)|[\w.]+)\.__module__)[ \t]*[,)])"
        rb"|\bspec_from_file_location\(|\binstantiate\(|\bget_class\(|\bLightningCLI\b"
    ),
    (
        *(b"import_module(", b"__import__(", b"spec_from_file_location(", b"instantiate(", b"get_class("),
        b"LightningCLI",
    ),
)
"""Matches imports of modules by computed names. Imports by a literal name are not matched, because they usually import
libraries. `import_module(cls.__module__)` is not matched either, because that module is imported already."""
PARSES = LinePattern(
    re.compile(rb"\b(?:HfArgumentParser|TrlParser)\b|\bTrainingArguments\(|\bLightningCLI\b"),
    (b"HfArgumentParser", b"TrlParser", b"TrainingArguments(", b"LightningCLI"),
)
MAIN_BLOCK = re.compile(rb"^if[ \t]+__name__[ \t]*==[^\n]*\n(?:(?:[ \t\r][^\n]*)?\n)*", re.MULTILINE)
OF_TRAINING = re.compile(r"train|tune")
"""Matches the names of scripts whose main block trains, and is more than an example."""
HALF = LinePattern(re.compile(rb"fp16|float16|\.half\b|16-mixed"), (b"fp16", b"float16", b".half", b"16-mixed"))


@dataclass(frozen=True)
class Module:
    """One file. `imports` are dotted names; a relative name begins with dots. `from a import b` gives a and a.b.

    `deferred`: the imports that are only in functions or branches. `starts`: it can be started. `infers`: its name
    suggests a script that uses a trained model. `dynamic`: it imports modules whose names are computed. `parses`: it
    parses Trainer arguments. `half`: it names float16. `scales`: it scales a loss, or uses a library with loss scaling.
    `float16_error_line`: the number of the first line that raises an error for float16, or 0. `foreign`: it is code for
    another framework or device. `main_trains`: only its main block trains, and its name does not suggest training.
    """

    path: str
    imports: tuple[str, ...] = ()
    deferred: tuple[str, ...] = ()
    trains: bool = False
    starts: bool = False
    infers: bool = False
    dynamic: bool = False
    parses: bool = False
    half: bool = False
    scales: bool = False
    float16_error_line: int = 0
    foreign: bool = False
    main_trains: bool = False

    def as_row(self) -> list[Any]:
        """Return the fields as plain values: decoding thousands of dataclasses by their annotations is slow."""
        return [getattr(self, each.name) for each in fields(self)[1:]]

    @staticmethod
    def of_row(path: str, row: list[Any]) -> Module:
        return Module(path, tuple(row[0]), tuple(row[1]), *row[2:])


def read_module(path: str, data: bytes) -> Module:
    """Return the facts about a file, found by text searches. In a notebook, only the code cells are searched."""
    is_notebook = path.endswith(".ipynb")
    source = _code_of(path, data) if is_notebook else data
    found = list(_imports(source))
    always = {name for name, is_indented in found if not is_indented}
    return Module(
        path,
        tuple(dict.fromkeys(name for name, _ in found)),
        tuple(dict.fromkeys(name for name, _ in found if name not in always)),
        trains=_trains(source),
        starts=is_notebook or holds_any(source, STARTS),
        infers=_infers(path.lower()),
        dynamic=DYNAMIC.is_in(source),
        parses=PARSES.is_in(source),
        half=HALF.is_in(source),
        scales=SCALES.is_in(source),
        float16_error_line=0 if is_notebook else line_that_refuses(data),
        foreign=not is_notebook and (is_foreign(data) or is_for_accelerator(data)),
        main_trains=not is_notebook and _main_trains(path, source),
    )


def _trains(source: bytes) -> bool:
    if not TRAINS.is_in(source):
        return False
    return not holds(source, b"autograd") or OPTIMIZES.is_in(source)


def _main_trains(path: str, source: bytes) -> bool:
    if not holds(source, b"__main__") or OF_TRAINING.search(basename(path).lower()):
        return False
    return _trains(source) and not _trains(MAIN_BLOCK.sub(b"", source + b"\n"))


def _infers(path: str) -> bool:
    return INFERS.search(splitext(basename(path))[0]) is not None or OF_EVALUATION.search(path) is not None


def _code_of(path: str, data: bytes) -> bytes:
    try:
        return map_python(path, data).text
    except Unparsable:
        return strings_of_notebook(data)


def _imports(source: bytes) -> Iterator[tuple[str, bool]]:
    """Yield the names in `from` statements, then the names in `import` statements, and whether they are indented."""
    plain: list[tuple[bytes, bool]] = []
    end = 0
    for start, _ in line_spans(source, (b"import",)):
        if start >= end and (found := FROM.match(source, start)):
            end = found.end()
            dotted, is_indented = found[1].decode(), source[start] in b" \t"
            yield dotted, is_indented
            joint = "" if dotted.endswith(".") else "."
            for name in NAME.findall(found[2]):
                yield f"{dotted}{joint}{name.split()[0].decode()}", is_indented
        elif found := IMPORT.match(source, start):
            plain.append((found[1], source[start] in b" \t"))
    for names, is_indented in plain:
        yield from ((each.split()[0].decode(), is_indented) for each in names.split(b",") if each.split())
