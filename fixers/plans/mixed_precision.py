"""Find out whether anything selects mixed precision in float16 for a program, and which changes it needs only then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fixers.frame.change import FileChange
from fixers.frame.target import Target
from fixers.plans.doubts import Doubt
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import Program
from fixers.sources.commands import reads_commands
from fixers.sources.launched import is_document, scripts_of

CASTS = {"trainable-fp32"}
NO_FLOAT16 = "casts to float32 in programs for which nothing selects float16"
NAMED = re.compile(
    rb"--(?:\w+[._-])?(?:fp|bf)16\b|mixed[_-]precision|--precision|\b(?:fp|bf)16[\"']?[ \t]*[:=]", re.IGNORECASE
)
"""Matches an option of mixed precision in a command."""
FLOAT16 = re.compile(
    rb"--(?:\w+[._-])?fp16(?![\w-])(?![ =]+[\"']?(?:[Ff]alse|0|no)\b)|\b16-mixed|fp16[-_]mixed|GradScaler\("
    rb"|(?:mixed[_-]?|--|^[ \t\"']*)precision[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+)[\"']?(?:fp16|float16|half|16)\b"
    rb"|\bprecision[ \t]*=[ \t]*[\"']?16\b|MIXED_PRECISION\b[\"'\] \t,=]*fp16"
    rb"|\bfp16[\"']?[ \t]*(?::[ \t]*[A-Za-z]\w*(?:\[\w+\])?[ \t]*)?[:=](?!=)[ \t]*"
    rb"(?:(?:dataclasses\.)?field\([ \t\r\n]*default[ \t]*=[ \t]*)?"
    rb"(?!None\b|null\b|[\"']?auto\b|[\"']?[Ff]alse\b|0\b)[\"'\w({]",
    re.MULTILINE,
)
"""Matches settings that select float16 with a scaled loss. A value that is an expression may select it."""
ENABLED = re.compile(rb"fp16[\"']?[ \t]*[:=][ \t]*\{[^{}]*enabled[\"']?[ \t]*:[ \t]*[Tt]rue\b")
BLOCK = re.compile(rb"fp16[\"']?[ \t]*[:=][ \t]*\{[^{}]*\}")
PARSES_ARGUMENTS = re.compile(rb"HfArgumentParser|TrlParser")
SCALES_OTHERWISE = re.compile(rb"GradScaler|lightning|\bFabric\(|loss_scale|scale_loss|deepspeed\.initialize")
HALF_WEIGHTS = re.compile(rb"(?:^|[^\w])(?:torch_)?dtype[ \t]*=[ \t]*[\"']?(?:torch\.)?(?:float16|half)\b")


class MixedPrecision:
    """Answers for the programs of a project, with the texts as they are after the changes."""

    def __init__(self, owners: Owners, changes: Mapping[str, FileChange], target: Target) -> None:
        self.owners = owners
        self.changes = changes
        launched = target.code_facts.traits.launched
        entries = tuple(each.entry for each in owners.programs)
        self.starting: dict[str, set[str]] = {}
        for each in launched:
            for entry in scripts_of(each, entries):
                self.starting.setdefault(entry, set()).add(each.path)

    def needless_casts(self, attached: Mapping[str, Iterable[Program]]) -> frozenset[str]:
        """Return the files that get only casts to float32, and that belong to no program which selects float16."""
        casts = {path: own for path, own in attached.items() if self.changes[path].fixers.keys() <= CASTS}
        return frozenset(path for path, own in casts.items() if not any(map(self.selects_float16, own)))

    def of_trainer(self, program: Program, own: Iterable[FileChange]) -> Iterator[Doubt]:
        """Yield a doubt for weights that become float16 under a Trainer whose commands select no mixed precision."""
        started = self.starting.get(program.entry, set())
        halved = [each for each in own if each.path.endswith(PYTHON) and _halves_weights(each)]
        if not halved or not started or any(NAMED.search(self.after(path)) for path in started):
            return
        code = [self.after(path) for path in program.paths if path.endswith(PYTHON)]
        of_trainer = any(map(PARSES_ARGUMENTS.search, code)) and not any(map(SCALES_OTHERWISE.search, code))
        if of_trainer and not self.selects_float16(program):
            reason = f"no command, such as {min(started)}, selects mixed precision, so that nothing scales the loss"
            yield Doubt(reason, halved[0].path)

    def selects_float16(self, program: Program) -> bool:
        """Return True if code, a command, a document or a config of the program selects float16 with a scaled loss."""
        started = self.starting.get(program.entry, set())
        if any(_selects(self.after(path)) for path in (*program.paths, *started)):
            return True
        configs = ((path, self.after(path)) for path, _ in self.owners.texts if _is_config(path))
        return any(program in (self.owners.of(path, text) or ()) for path, text in configs if _selects(text))

    def after(self, path: str) -> bytes:
        """Return the text of the file after the changes."""
        with suppress(OSError):
            return self.changes[path].after if path in self.changes else self.owners.read(path)
        return b""


def _selects(text: bytes) -> bool:
    return ENABLED.search(text) is not None or FLOAT16.search(BLOCK.sub(b"", text)) is not None


def _halves_weights(change: FileChange) -> bool:
    return len(HALF_WEIGHTS.findall(change.after)) > len(HALF_WEIGHTS.findall(change.before))


def _is_config(path: str) -> bool:
    return not (path.endswith(PYTHON) or reads_commands(path) or is_document(path))
