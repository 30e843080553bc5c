"""Values that were told to us as secrets, taken out of what is shown or kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from remote.protocol.values import decode, encode

T = TypeVar("T")
INSTEAD = "***"
TOKENS = re.compile(r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ)[\w.-]{16,}")
SHORTEST = 6
"""Shorter values would take words of everybody's out of a text, and keep nothing secret."""


def mask(text: str, secrets: Iterable[str]) -> str:
    """The text with each of these values replaced, a longer one before what it begins with."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, INSTEAD)
    return text


def mask_tokens(text: str) -> str:
    """The text without access tokens of the well-known services, whoever they were issued to."""
    return TOKENS.sub(INSTEAD, text)


def masked(value: T, secrets: Iterable[str]) -> T:
    """The same dataclass with every text in it masked."""
    known = tuple(secrets)
    return decode(type(value), _masked(encode(value), known)) if known else value


def _masked(data: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(data, str):
        return mask(data, secrets)
    if isinstance(data, list):
        return [_masked(item, secrets) for item in data]
    if isinstance(data, dict):
        return {name: _masked(item, secrets) for name, item in data.items()}
    return data
