"""The values of secrets on this machine. They are replaced in the messages of a host and in diagnoses."""

from __future__ import annotations

from typing import Annotated, FrozenSet, Iterable, Set

from remote.protocol.text import one_line, safe_text

INSTEAD = "***"
SHORTEST = 6
"""Shorter values are not replaced, because they may also occur as ordinary words."""

_values: Set[str] = set()


def hide(values: Iterable[str]) -> None:
    """Replace these values in every message that is decoded from now on in this process."""
    _values.update(values)


def without_hidden(text: str) -> str:
    """Return the text with each value that was passed to `hide` replaced."""
    return mask(text, _values) if _values else text


def hidden_values() -> FrozenSet[str]:
    """Return the values that were passed to `hide`."""
    return frozenset(_values)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Replace each secret in the text.

    Longer secrets are replaced first, because a secret may begin with another secret.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, INSTEAD)
    return text


def message_line(text: str) -> str:
    """Return the text on one line, with hidden values and control characters replaced: the default rule of answers."""
    return one_line(without_hidden(text))


def message_lines(text: str) -> str:
    """Return the text with hidden values and control characters replaced."""
    return safe_text(without_hidden(text))


Message = Annotated[str, message_line]
"""A text of one line, in which hidden values and control characters are replaced when it is decoded."""
Lines = Annotated[str, message_lines]
"""A text of several lines, in which hidden values and control characters are replaced when it is decoded."""
Output = Annotated[str, without_hidden]
"""The output of a program, in which only hidden values are replaced when it is decoded."""
Identifier = Annotated[str, one_line]
"""A path, digest, version or other name, which code compares or sends back. Hidden values are kept when it is decoded.

A secret may be the name of a folder, and the path of a host with `***` in it would be another path.
"""
