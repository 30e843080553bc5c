"""The constant values of the variables in a shell script. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping

from fixers.sources.words import Script, Word

VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}\n$]*))?\})")
"""Matches a variable, with its default."""
DECLARATIONS = frozenset({"export", "local", "readonly", "declare", "typeset"})
DECLARED = re.compile(r"(\w+)=(.*)", re.DOTALL)
INEXACT = re.compile(r"['\\`]|\$\(|^\(")
"""Matches single quotes, escapes, commands and arrays: the text of such a word is not computed."""
NESTED = 3
"""The number of times that variables are replaced, because a value may contain other variables."""
MOST_VALUES = 8
MOST_VARIABLES = 8
LONGEST = 200
Values = Mapping[str, tuple[str, ...]]


def values_in(script: Script, unknown: Container[str]) -> Values:
    """Return the values that the script assigns to each variable, with the variables in them.

    The variables in `unknown` have no values. The value of a variable to which text is appended (`+=`) is "$": unknown.
    """
    found: dict[str, dict[str, None]] = {}
    appended = {each.name for command in script.commands for each in command.assignments if each.appends}
    for command in script.commands:
        for assignment in command.assignments:
            _add(found, assignment.name, assignment.value.raw)
        if command.words and command.words[0].text in DECLARATIONS:
            for word in command.words[1:]:
                if declared := DECLARED.fullmatch(word.raw):
                    _add(found, declared[1], declared[2])
    known = {name: tuple(given) for name, given in found.items() if name not in unknown}
    return known | dict.fromkeys(appended & known.keys(), ("$",))


def _add(found: dict[str, dict[str, None]], name: str, raw: str) -> None:
    given = found.setdefault(name, {})
    if len(given) < MOST_VALUES:
        given[_unquoted(raw) if len(raw) <= LONGEST else "$"] = None


def _unquoted(raw: str) -> str:
    """Return the text of a word with its variables, or "$" if it is unknown."""
    if raw[:1] == "'" and raw[-1:] == "'" and raw.count("'") == 2 and "$" not in raw:
        return raw[1:-1]
    return "$" if INEXACT.search(raw) else raw.replace('"', "")


def texts_of(word: Word, values: Values, unknown: Container[str] = ()) -> tuple[str, ...]:
    """Return the texts that a word may have: one for each value of a variable in it. An unknown value gives no text."""
    if word.text is not None:
        return (word.text,)
    if len(word.raw) > LONGEST:
        return ()
    return tuple(dict.fromkeys(_resolved(_unquoted(word.raw), values, unknown)))


def first_values(word: Word, values: Values) -> tuple[str, ...]:
    """Return the texts that the variable at the start of a word may have, as in `"$DATA/train"`."""
    found = VARIABLE.match(word.raw.lstrip('"')) if word.text is None else None
    return tuple(_resolved(f"${found[1] or found[2]}", values, ())) if found else ()


def _resolved(text: str, values: Values, unknown: Container[str]) -> Iterator[str]:
    for number in range(_variants(text, values)):

        def value_of(found: re.Match[str], number: int = number) -> str:
            name = found[1] or found[2]
            given = values.get(name) or ((found[3],) if found[3] and name not in unknown else (found[0],))
            return given[min(number, len(given) - 1)]

        resolved = text
        for _ in range(NESTED):
            if resolved.count("$") > MOST_VARIABLES:
                break
            resolved = VARIABLE.sub(value_of, resolved)
        if "$" not in resolved:
            yield resolved


def _variants(text: str, values: Values) -> int:
    """Return the largest number of values of a variable in the text, or of one in its values."""
    names, new = set[str](), _names(text)
    for _ in range(NESTED):
        names |= new
        given = (value for name in sorted(new)[:MOST_VARIABLES] for value in values.get(name, ()))
        new = {each for value in given for each in _names(value)} - names
    return max((len(values.get(name, ())) for name in names), default=1) or 1


def _names(text: str) -> set[str]:
    return {found[1] or found[2] for found in VARIABLE.finditer(text)}
