"""Hints of a host. Only hints that this laptop's copy of halfstep contains are shown as halfstep's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
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


def hint_of_host(text: str) -> str:
    """Return the hint unchanged if halfstep's own code contains it, otherwise as a quotation of the host.

    A compromised host could otherwise print any command as the next one to type.
    """
    if not text or text in OWN_SENTENCES or OWN_COMMANDS.fullmatch(text) or text in _own_strings():
        return text
    return QUOTED + one_line(text)


@cache
def _own_strings() -> frozenset[str]:
    """Return the strings in the source of the code that runs on hosts, as it is on this laptop."""
    root = Path(__file__).parents[1]
    files = (file for folder in ON_HOSTS for file in (root / folder).rglob("*.py"))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_bytes())))
    constants = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(each for each in constants if isinstance(each, str))


def findings_of_host(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of an answer with the hints that `hint_of_host` returns."""
    return tuple(replace(finding, hint=hint_of_host(finding.hint)) for finding in findings)
