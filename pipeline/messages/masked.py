"""Replace secrets and access tokens in text that is shown or stored."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from remote.protocol.hidden import INSTEAD, mask
from remote.protocol.values import decode, encode

T = TypeVar("T")
TOKENS = re.compile(r"\b(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ)[\w.-]{16,}")


def mask_tokens(text: str) -> str:
    """Replace access tokens of well-known services (Hugging Face, GitHub, AWS, Slack, ...)."""
    return TOKENS.sub(INSTEAD, text)


def masked(value: T, secrets: Iterable[str]) -> T:
    """Return a copy of a dataclass in which every string is masked."""
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
