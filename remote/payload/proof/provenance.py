"""Find where half precision entered a command: the line that used the dtype, and the setting that contains it."""

from __future__ import annotations

import os
import shlex
from typing import Dict, FrozenSet, Iterator, List, Sequence

from remote.payload.proof.evidence import Evidence
from remote.payload.proof.hooks.report import HalfEntry, RankReport
from remote.payload.proof.value_origins import arguments_with, follow_use, settings_with
from remote.protocol.proof import HalfOrigin

CONFIGURED = ("accelerate", "diffusers", "lightning", "peft", "pytorch_lightning", "transformers", "trl")
LARGEST_BYTES = 1 << 18
RUNTIME_HINT = "fixers: {runtime: auto}"
KEYS = {"accelerator": {"mixed_precision"}, "trainer": {"bf16", "fp16"}}
"""The settings that Accelerate and Trainer read without the project's code, by the kind of entry."""


def read_texts(root: str, ranks: Sequence[RankReport]) -> Dict[str, str]:
    """Return the text of each project file that chose a dtype or was read as settings, by its path in the project."""
    texts = {}
    for rank in ranks:
        for path in (*(entry.file for entry in rank.provenance.entries), *rank.provenance.settings):
            whole = os.path.join(root, path)
            if path and path not in texts and os.path.isfile(whole) and os.path.getsize(whole) <= LARGEST_BYTES:
                with open(whole, encoding="utf-8", errors="replace") as file:
                    texts[path] = file.read()
    return texts


def find_origins(evidence: Evidence) -> Iterator[HalfOrigin]:
    """Yield each place where half precision entered on any rank, without duplicates."""
    seen: Dict[HalfEntry, None] = {}
    for rank in evidence.ranks:
        for entry in rank.provenance.entries:
            seen.setdefault(entry)
    for entry in seen:
        used = f"{entry.file}:{entry.line}" if entry.file else ""
        source = _source(evidence, entry)
        yield HalfOrigin(entry.kind, entry.dtype, used, source, entry.installed, entry.tensors)


def _source(evidence: Evidence, entry: HalfEntry) -> str:
    """Return the only place that sets the value used by this line.

    Return "" if the line itself sets it, or if the place is uncertain.
    """
    use = follow_use(evidence.texts.get(entry.file, ""), entry.line, entry.dtype)
    if use is None and not entry.source:
        return ""
    if use is not None and use.literal:
        return "" if use.literal == entry.line else f"{entry.file}:{use.literal}"
    keys = frozenset((use.keys if use is not None else frozenset()) | KEYS.get(entry.kind, set()))
    places = sorted(set(_places(evidence, entry, keys)))
    if len(places) > 1:
        return ""
    return places[0] if places else _environment(entry)


def _places(evidence: Evidence, entry: HalfEntry, keys: FrozenSet[str]) -> Iterator[str]:
    names = {name for rank in evidence.ranks for name in rank.provenance.settings}
    yield from settings_with({name: evidence.texts[name] for name in names & set(evidence.texts)}, keys, entry.dtype)
    commands: List[Sequence[str]] = [rank.provenance.argv[1:] for rank in evidence.ranks]
    if entry.source:
        # A launcher passes its flags on as environment variables.
        commands += [_words(python.command) for python in evidence.pythons]
    for command in commands:
        yield from arguments_with(command, keys, entry.dtype)
    for name, value in evidence.request.environment.items():
        lowered = frozenset({*keys, entry.source.lower()} - {""})
        yield from (f"env: {word}" for word in arguments_with([f"{name}={value}"], lowered, entry.dtype))


def _environment(entry: HalfEntry) -> str:
    return f"the environment variable {entry.source}" if entry.source else ""


def _words(command: str) -> List[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def describe(origin: HalfOrigin) -> str:
    """Return 'bfloat16 came from conf/train.toml:12, used at train.py:88'."""
    used = origin.used
    if origin.installed:
        used = f"{origin.installed}, called at {used}" if used else origin.installed
    if origin.source:
        return f"{origin.dtype} came from {origin.source}, used at {used}"
    return f"{origin.dtype} entered at {used}"


def explain(evidence: Evidence, kinds: Sequence[str], dtypes: Sequence[str]) -> str:
    """Return '; bfloat16 came from ...' for the first entry of these kinds, to append to a message, or ""."""
    origins = [one for one in find_origins(evidence) if one.kind in kinds and one.dtype in dtypes]
    # In `kinds`, a choice for the whole process comes before the consequences of that choice.
    origins.sort(key=lambda one: kinds.index(one.kind))
    if not origins:
        return ""
    more = (
        f" (and {len(origins) - 1} other places)" if len(origins) > 2 else " (and 1 other place)" if origins[1:] else ""
    )
    return f"; {describe(origins[0])}{more}"


def remedy(evidence: Evidence, kinds: Sequence[str], fixer: str) -> str:
    """Return the hint for half precision of these kinds: change the setting that contains the dtype, if it is known.

    The fixers have already run in the copy of the project, so the name of a fixer would not help.
    """
    if is_in_installed_code(evidence, kinds):
        return RUNTIME_HINT
    sources = {one.source for one in find_origins(evidence) if one.kind in kinds and one.dtype == "bfloat16"}
    return f"select float16 in {sources.pop()}" if len(sources) == 1 and "" not in sources else fixer


def is_in_installed_code(evidence: Evidence, kinds: Sequence[str]) -> bool:
    """Return True if half precision entered only in installed code, which no fixer rewrites."""
    origins = [one for one in find_origins(evidence) if one.kind in kinds]
    return bool(origins) and all(_is_foreign(one.installed) and not one.source for one in origins)


def _is_foreign(installed: str) -> bool:
    """Return True for installed code, except libraries whose arguments decide the dtype."""
    return bool(installed) and installed.partition("/")[0] not in CONFIGURED
