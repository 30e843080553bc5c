"""The values of secrets on this machine. They are replaced in the messages of a host and in diagnoses."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Annotated, FrozenSet, Iterable, Iterator, Set, Tuple, Union
from urllib.parse import quote, quote_plus

from remote.protocol.text import first_line, one_line, safe_text

INSTEAD = "***"
SHORTEST = 6
"""Shorter values are not replaced, because they may also occur as ordinary words."""
SPECIAL = re.compile(r"[^\w@%+=:,./-]")
ENCODED = re.compile("%[0-9A-F]{2}")
ESCAPED = re.compile(r"\\u[0-9a-f]{4}")

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
    """Replace each secret in the text, also where it is percent-encoded, escaped, or quoted for a shell.

    Escapes are those of JSON (once or twice), `repr`, `ascii` and the `repr` of bytes; quotes are those of
    `shlex.quote`, `$'...'` and `printf %q`.

    Longer forms are replaced first, because a secret may begin with another secret.
    """
    values = {each for secret in secrets for each in (secret, secret.strip())}
    forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, INSTEAD)
    return text


@lru_cache(maxsize=256)
def _forms(secret: str) -> Tuple[str, ...]:
    if secret.isalnum() and secret.isascii():
        return (secret,)
    data = secret.encode("utf-8", "surrogateescape")
    encoded = (quote(data), quote(data, safe=""), quote_plus(data))
    lower = (ENCODED.sub(lambda found: found[0].lower(), text) for text in encoded)
    python = (repr(secret)[1:-1], ascii(secret)[1:-1], repr(data)[2:-1])
    return (secret, *encoded, *lower, *_json_forms(secret), *python, *_shell_forms(secret))


def _json_forms(secret: str) -> Iterator[str]:
    """Yield the secret as in a JSON string, and as in a JSON string in a JSON string."""
    for only_ascii in (True, False):
        escaped = json.dumps(secret, ensure_ascii=only_ascii)[1:-1]
        for text in (escaped, ESCAPED.sub(lambda found: found[0].upper().replace("U", "u", 1), escaped)):
            yield from (text, text.replace("/", "\\/"), json.dumps(text, ensure_ascii=only_ascii)[1:-1])


def _shell_forms(secret: str) -> Tuple[str, ...]:
    """Return the secret as inside the quotes of `shlex.quote`, `'...'` and `$'...'`, and as `printf %q` prints it."""
    in_single = secret.replace("'", "'\"'\"'")
    return (
        in_single,
        secret.replace("'", "'\\''"),
        secret.replace("\\", "\\\\").replace("'", "\\'"),
        SPECIAL.sub(r"\\\g<0>", secret),
    )


def message_line(text: str) -> str:
    """Return the text on one line, with hidden values and control characters replaced: the default rule of answers."""
    return one_line(without_hidden(text))


def message_lines(text: str) -> str:
    """Return the text with hidden values and control characters replaced."""
    return safe_text(without_hidden(text))


def first_message_line(text: Union[str, bytes]) -> str:
    """Return the first line that is not blank, with hidden values and control characters replaced, or ""."""
    decoded = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    return first_line(without_hidden(decoded))


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
