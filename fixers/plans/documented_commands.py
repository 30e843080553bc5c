"""Find commands of documents that train in bfloat16: fixers do not edit documents, so the user must change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from fixers.frame.findings import warning
from fixers.plans.programs import Program
from fixers.sources.launched import Launched, is_document, launched_in, scripts_of
from fixers.sources.lines import holds_any
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding

CHECK = "bf16-to-fp16"
MESSAGE = "this command of a document trains in bfloat16, and fix does not edit documents"
HINT = "pass the float16 value of the option, such as --fp16, to start the training"
WORDS = (b"bf16", b"bfloat16", b"BF16")
SELECTS = re.compile(
    rb"--(?:\w+[._-])?bf16(?![\w-])(?![ \t=]+[\"']?(?:[Ff]alse|0|no)\b)"
    rb"|--[\w.-]*(?:dtype|precision)[ \t=]+[\"']?(?:torch\.)?(?:bf16|bfloat16)\b"
    rb"|(?<![\w-])[\w.]*(?:dtype|precision|bf16)=[\"']?(?:bf16|bfloat16|[Tt]rue)\b"
)
"""Matches an option, or a setting of Hydra, that selects bfloat16."""
ENDS_IN_BACKSLASH = re.compile(rb"\\[ \t]*\r?\n?$")
Read = Callable[[str], bytes]


@dataclass(frozen=True)
class _Command:
    """A command of a document, with the number of the line that selects bfloat16, counted from 1."""

    text: bytes
    line: int


def documents_with_bfloat16(launched: Iterable[Launched], read: Read) -> tuple[str, ...]:
    """Return the documents that start scripts and may select bfloat16."""
    paths = dict.fromkeys(each.path for each in launched if is_document(each.path))
    return tuple(path for path in paths if _may_select(path, read))


def _may_select(path: str, read: Read) -> bool:
    with suppress(OSError):
        return holds_any(data := read(path), WORDS) and SELECTS.search(data) is not None
    return False


def report_documents(
    documents: Collection[str], launched: Sequence[Launched], programs: Sequence[Program], read: Read
) -> tuple[Finding, ...]:
    """Return a warning for each command of the documents that starts one of the programs in bfloat16.

    Programs that a file of commands starts do not count, because fixers edit this file. `programs`: the training
    programs that are able to train in float16.
    """
    entries = [each.entry for each in programs]
    edited = {entry for each in launched if not is_document(each.path) for entry in scripts_of(each, entries)}
    waiting = [each for each in entries if each not in edited]
    return tuple(
        warning(CHECK, MESSAGE, f"{path}:{command.line}", HINT)
        for path in sorted(documents)
        for command in _commands(read(path))
        if any(scripts_of(each, waiting) for each in launched_in(path, command.text))
    )


def _commands(data: bytes) -> Iterator[_Command]:
    """Yield the commands that select bfloat16. A command may continue on the next line."""
    text, selecting = b"", 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        text += line
        selecting = selecting or (number if SELECTS.search(line) else 0)
        if ENDS_IN_BACKSLASH.search(line):
            continue
        if selecting:
            yield _Command(text, selecting)
        text, selecting = b"", 0
    if selecting:
        yield _Command(text, selecting)
