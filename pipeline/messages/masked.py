"""Replace secrets and access tokens in text that is shown or stored."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from remote.protocol.hidden import INSTEAD, hidden_values, mask

T = TypeVar("T")
TOKENS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|gh[oprsu]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|ASIA|AIza|eyJ)[\w.-]{16,}"
    r"|(?<=://)[^/\s:@]{1,100}:[^/\s:@]{1,1000}(?=@)"
)
"""Access tokens of well-known services, and user names with passwords in URLs."""


def mask_tokens(text: str) -> str:
    """Replace access tokens of well-known services (Hugging Face, GitHub, AWS, Slack, ...) and passwords in URLs."""
    return TOKENS.sub(INSTEAD, text)


def masked(value: T, secrets: Iterable[str] = ()) -> T:
    """Return a copy of a dataclass in which the secrets, and all hidden values, are replaced in every string."""
    known = {*secrets, *hidden_values()}
    return _masked(value, known) if known else value


def _masked(value: Any, secrets: Collection[str]) -> Any:
    if isinstance(value, str):
        return value if isinstance(value, Enum) else mask(value, secrets)
    if isinstance(value, list | tuple):
        return type(value)(_masked(item, secrets) for item in value)
    if isinstance(value, Mapping):
        return {_masked(name, secrets): _masked(item, secrets) for name, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        kept = {each.name: _masked(getattr(value, each.name), secrets) for each in fields(value) if each.init}
        return replace(value, **kept)
    return value
