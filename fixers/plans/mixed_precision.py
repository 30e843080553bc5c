"""Find out whether anything selects mixed precision in float16 for a program, and which changes are useless if nothing
does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from fixers.frame.change import FileChange, SkippedPlace
from fixers.frame.findings import warning
from fixers.frame.target import Target
from fixers.plans.doubts import Doubt
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import Program
from fixers.sources.commands import reads_commands
from fixers.sources.launched import Launched, is_document, scripts_of
from fixers.sources.notebook_commands import is_notebook
from fixers.sources.splice import line_of
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding

PROBE = "bf16-probe"
TRAINS_HALF = re.compile(rb"^[^#\n]*\bfp16[ \t]*=[ \t]*True\b", re.MULTILINE)
CASTS = {"trainable-fp32"}
CHECK = "bf16-to-fp16"
WRITES_CONFIG = re.compile(
    rb"%%writefile[ ]+([\w./-]+\.(?:ya?ml|json))(?:(?!%%writefile|\"cell_type\").)*?"
    rb"\b(?:bf16[\\\"']*[ ]*:[ ]*true|mixed_precision[\\\"']*[ ]*:[ ]*[\\\"']*bf16)",
    re.DOTALL,
)
"""Matches a cell of a notebook that writes a config with bfloat16."""
WRITTEN = "{notebook} writes {config} with bfloat16, which fix does not edit"
DOCUMENTED = (
    "{document} starts a program with --bf16, which fix does not edit: settings that must agree stay in bfloat16"
)
HINT = "write --fp16 in the command of the document, then run the fixers again"
ADDITIVE = ("float16 needs a loss scale (mixed-precision-config)", "(trainable-fp32)", "(attention-to-sdpa)")
"""The ends of the reasons for changes that have no effect under bfloat16."""
AGREES = "settings that must agree with --bf16 in a document, which fix does not edit"
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


@dataclass(frozen=True)
class Left:
    """What stays unchanged, with the reasons.

    Files that would only get needless `casts` stay as they are. In the files `agreeing`, only the attention changes.
    """

    casts: frozenset[str]
    agreeing: frozenset[str]
    findings: tuple[Finding, ...]
    skipped: tuple[SkippedPlace, ...]


class MixedPrecision:
    """Answers for the programs of a project, with the texts as they are after the changes."""

    def __init__(self, owners: Owners, changes: Mapping[str, FileChange], target: Target) -> None:
        self.owners = owners
        self.changes = changes
        launched = target.code_facts.traits.launched
        entries = tuple(each.entry for each in owners.programs)
        self.selecting: dict[str, bool] = {}
        self.launches: dict[str, list[Launched]] = {}
        for each in launched:
            for entry in scripts_of(each, entries):
                self.launches.setdefault(entry, []).append(each)

    def judge(self, attached: Mapping[str, Sequence[Program]]) -> Left:
        """Return what stays as it is in the files, each of which belongs to these proved programs."""
        casts = frozenset(path for path, own in attached.items() if self.has_needless_cast(path, own))
        documents = {path: self.document_of(path, own) for path, own in attached.items()}
        agreeing = {path: each for path, each in documents.items() if each}
        found = sorted({*agreeing.values()})
        return Left(
            casts,
            frozenset(agreeing),
            tuple(warning(CHECK, DOCUMENTED.format(document=each), each, HINT) for each in found),
            tuple(SkippedPlace(path, NO_FLOAT16 if path in casts else AGREES) for path in sorted({*casts, *agreeing})),
        )

    def has_needless_cast(self, path: str, own: Iterable[Program]) -> bool:
        """Return True if the file gets only casts to float32, and none of the programs selects float16."""
        return self.changes[path].fixers.keys() <= CASTS and not any(map(self.selects_float16, own))

    def document_of(self, path: str, own: Sequence[Program]) -> str:
        """Return a document with whose `--bf16` the settings in the file must agree, or "".

        Only documents start the programs, and fixers do not edit documents. Changes that only add a block of DeepSpeed
        or a cast, and changes of attention, agree with every command.
        """
        if not own or all(each.endswith(ADDITIVE) for each in self.changes[path].why):
            return ""
        launches = [self.launches.get(each.entry, []) for each in own]
        found = [min((one.path for one in each if one.bf16), default="") for each in launches]
        only_documents = all(is_document(one.path) for each in launches for one in each)
        return found[0] if only_documents and all(found) else ""

    def of_probes(self, held_back: Iterable[str], doubts: Mapping[str, Doubt]) -> frozenset[str]:
        """Return the scripts that set `fp16=True` and also test for bfloat16.

        On this card, the test must select float16.
        """
        runs = {each.entry for each in self.owners.programs} - {
            entry for entry, each in doubts.items() if each.of_flash
        }
        probing = (path for path in held_back if path in runs and PROBE in self.changes[path].fixers)
        return frozenset(path for path in probing if TRAINS_HALF.search(self.changes[path].before))

    def of_trainer(self, program: Program, own: Iterable[FileChange]) -> Iterator[Doubt]:
        """Yield a doubt for weights that become float16 under a Trainer whose commands select no mixed precision."""
        started = self.starting(program)
        halved = [each for each in own if each.path.endswith(PYTHON) and _halves_weights(each)]
        if not halved or not started or any(NAMED.search(self.after(path)) for path in started):
            return
        code = [self.after(path) for path in program.paths if path.endswith(PYTHON)]
        of_trainer = any(map(PARSES_ARGUMENTS.search, code)) and not any(map(SCALES_OTHERWISE.search, code))
        if of_trainer and not self.selects_float16(program):
            reason = f"no command, such as {min(started)}, selects mixed precision, so that nothing scales the loss"
            yield Doubt(reason, halved[0].path)

    def of_notebooks(self, program: Program) -> Iterator[Doubt]:
        """Yield a doubt for each notebook that starts the program and writes a config with bfloat16 for it."""
        for path, text in self.owners.texts:
            found = WRITES_CONFIG.search(text) if is_notebook(path) and path not in program.paths else None
            if found and program in self.owners.started_by(path, text):
                where = f"{path}:{line_of(text, found.start())}"
                yield Doubt(WRITTEN.format(notebook=where, config=found[1].decode()), where)

    def selects_float16(self, program: Program) -> bool:
        """Return True if code, a command, a document or a config of the program selects float16 with a scaled loss.

        A document that selects bfloat16 counts as well, because on this card, its reader has to pass float16 instead.
        """
        started = self.starting(program)
        if any(each.bf16 and is_document(each.path) for each in self.launches.get(program.entry, ())):
            return True
        if any(self._selects_float16(path) for path in (*program.paths, *started)):
            return True
        configs = (path for path, _ in self.owners.texts if _is_config(path) and self._selects_float16(path))
        return any(program in (self.owners.of(path, self.after(path)) or ()) for path in configs)

    def _selects_float16(self, path: str) -> bool:
        """Return True if the text of the file, after the changes, selects float16 with a scaled loss."""
        if path not in self.selecting:
            self.selecting[path] = _selects(self.after(path))
        return self.selecting[path]

    def starting(self, program: Program) -> set[str]:
        """Return the files of the commands and documents that start the program."""
        return {each.path for each in self.launches.get(program.entry, ())}

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
