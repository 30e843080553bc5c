"""Find the bfloat16 switches that a Python file reads from a config, with or without a float16 switch."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from fixers.sources.lines import lines_with
from remote.protocol.dataclass import dataclass

BF16, FP16 = b"bf16", b"fp16"
KEY = rb"(\w*bf16\w*)"
UNASSIGNED = rb"(?!\s*=[^=])"
ENTRY = rb"\[\s*[\"']%b[\"']\s*\]" + UNASSIGNED + rb"|\b(?:get|pop|getattr|hasattr)\([^()\n]*[\"']%b[\"']"
ENTRY_OF_KEYS = re.compile(ENTRY % (KEY, KEY))
ATTRIBUTE_OF_KEYS = re.compile(rb"\b((?:\w+\.)+)" + KEY + rb"\b" + UNASSIGNED)
OWNER = rb"([\w.]+(?:\[[\"']\w+[\"']\])*)"
READ = re.compile(OWNER + rb"(?:\.(?:get|pop)\(\s*[\"']|\[\s*[\"']|\.)(\w*(?:bf16|fp16)\w*)\b" + UNASSIGNED)
READ_BY_GETATTR = re.compile(rb"\b[gh][es]tattr\(\s*" + OWNER + rb"\s*,\s*[\"'](\w*(?:bf16|fp16)\w*)[\"']")
COPIED = re.compile(rb"\b(self)\.(\w*bf16\w*)[ ]*=[ ]*(?:\w+\.)+\2\b")
"""Matches `self.bf16 = config.bf16`: what reads the copy reads the config."""
PARSED = re.compile(rb"ArgumentParser|TrlParser|TrainingArguments|Trainer\b")
OF_A_CONFIG = re.compile(rb"\b(?:\w*_)?(?:cfg|conf|config|hparams|hps?|opts?)\.")
OF_ARGUMENTS = re.compile(rb"\b(?:args?|ns|namespace)\.")


@dataclass(frozen=True)
class Keys:
    """Config keys for bfloat16.

    `unpaired`: keys that the code reads without a float16 key. `paired`: keys that the code always reads together with
    a float16 key.
    """

    unpaired: tuple[str, ...] = ()
    paired: tuple[str, ...] = ()


def keys_of(source: bytes) -> Keys:
    """Return the bfloat16 keys that the Python file reads from a config."""
    about_keys = lines_with(source, (BF16,))
    if not about_keys:
        return Keys()
    keys = {name for found in ENTRY_OF_KEYS.finditer(about_keys) for name in found.groups() if name}
    parses = PARSED.search(source) is not None
    for owners, name in ATTRIBUTE_OF_KEYS.findall(about_keys):
        if OF_A_CONFIG.search(owners) or (OF_ARGUMENTS.search(owners) and not parses):
            keys.add(name)
    paired = _paired(keys, lines_with(source, (BF16, FP16))) if keys and FP16 in source else set()
    return Keys(_texts(keys - paired), _texts(paired))


def _paired(keys: set[bytes], lines: bytes) -> set[bytes]:
    owners: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for pattern in (READ, READ_BY_GETATTR):
        for owner, name in pattern.findall(lines):
            owners[name].add(owner)
    for owner, name in COPIED.findall(lines):
        owners[name].discard(owner)
    return {key for key in keys if owners[key] and owners[key] <= owners[_counterpart(key)]}


def _counterpart(key: bytes) -> bytes:
    return key.replace(b"pure_bf16", FP16).replace(BF16, FP16)


def _texts(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted(name.decode("ascii", "ignore") for name in names))
