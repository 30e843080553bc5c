"""Hints of a host. Only hints that this laptop's copy of halfstep contains are shown as halfstep's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

from remote.protocol.findings import Finding
from remote.protocol.layout import OTHER_WORKDIR
from remote.protocol.text import one_line
from remote.protocol.tree import FORCE_SYNC

QUOTED = "hint of the host: "
ON_HOSTS = ("payload", "policy", "protocol")
OWN_COMMANDS = re.compile(
    r"pipeline (run|verify|plan)"
    r"|pipeline run --force (sync|train)"
    r"|pipeline (fix --only|explain) [a-z][a-z0-9-]{0,60}"
    r"|(run the command|try) again"
    r"|df -[hi] /[A-Za-z0-9_./-]{0,200} {3}\(on the host\)"
    r"|select float16 in [A-Za-z0-9_./-]{1,200}:[0-9]{1,9}"
)
OWN_SENTENCES = frozenset(
    (
        FORCE_SYNC,
        OTHER_WORKDIR,
        "pipeline run --force train   (starts again at step 0; broken checkpoints are kept)",
        "pipeline verify --no-proof",
        "pipeline verify --no-proof   (the proof of this model needs a card; a CPU trains it in float32 only)",
        "wait for it to end, then run the command again",
        "fixers: {runtime: auto}",
        "--set train.micro_batch=auto",
        "--set train.gradient_checkpointing=auto",
        "a card with more memory, a smaller lora.r or shorter samples",
    )
)


FEW = 20
"""The number of hints up to which files are searched for each hint. For more, all files are parsed once."""
LONGEST = 500
"""No hint in halfstep's code is longer."""


def hint_of_host(text: str) -> str:
    """Return the hint unchanged if halfstep's own code contains it, otherwise as a quotation of the host.

    A compromised host could otherwise print any command as the next one to type.
    """
    return _own_or_quoted(text, _is_in_code)


def findings_of_host(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of an answer with the hints that `hint_of_host` returns."""
    is_in_code = _is_in_code if len(findings) <= FEW else _all_strings().__contains__
    return tuple(replace(finding, hint=_own_or_quoted(finding.hint, is_in_code)) for finding in findings)


def _own_or_quoted(text: str, is_in_code: Callable[[str], bool]) -> str:
    if not text or text in OWN_SENTENCES or OWN_COMMANDS.fullmatch(text):
        return text
    return text if len(text) <= LONGEST and is_in_code(text) else QUOTED + one_line(text)


def _is_in_code(text: str) -> bool:
    """Return True if the code that runs on hosts contains this string, as it is on this laptop."""
    words = set(re.findall(rb"[A-Za-z]{3,}", text.encode("utf-8", "replace")))
    # Parsing all files takes 0.3 s. The string is in a file with its words, unless a word is divided.
    likely = (source for source in _sources() if all(word in source for word in words))
    return any(text in _strings(source) for source in likely) or text in _all_strings()


@cache
def _sources() -> tuple[bytes, ...]:
    root = Path(__file__).parents[1]
    return tuple(file.read_bytes() for folder in ON_HOSTS for file in sorted((root / folder).rglob("*.py")))


@cache
def _all_strings() -> frozenset[str]:
    return frozenset(chain.from_iterable(map(_strings, _sources())))


@cache
def _strings(source: bytes) -> frozenset[str]:
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return frozenset(each for each in constants if isinstance(each, str))
