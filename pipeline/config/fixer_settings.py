"""Check the section `fixers:`: each key is a known fixer, and each value is `auto`, `off`, `never` or settings."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from fixers.registry import EXTRA_MODES, FIXERS, MODES, TYPE_NAMES, VERSION
from fixers.setup.torch_requirement import BadTorch, parse_torch_requirement
from pipeline.config.document import Document, shown_value
from pipeline.config.model import FixersConfig
from pipeline.config.secret_values import texts_in
from remote.protocol.findings import Finding

SECTION = "fixers"


def check_fixer_settings(fixers: FixersConfig, document: Document) -> Iterator[Finding]:
    """Yield a problem for each unknown fixer, value or setting."""
    for name, value in (fixers.model_extra or {}).items():
        if name not in FIXERS:
            yield document.problem((SECTION, name), f"unknown fixer; {_nearest(name, FIXERS)}")
        elif isinstance(value, dict):
            yield from _settings(name, value, document)
        elif not _is_allowed(name, value):
            yield document.problem(
                (SECTION, name),
                f"should be {_allowed(name)}, got {shown_value(value)}",
                _suggestion(document, name, value),
            )


def judge_fixers(document: Document) -> tuple[Finding, ...]:
    """Return the problems of the section in a document that has other problems; () if the section is not a mapping."""
    section = document.values.get(SECTION)
    if not isinstance(section, dict) or not all(isinstance(name, str) for name in section):
        return ()
    return tuple(check_fixer_settings(FixersConfig.model_validate(section), document))


def _settings(name: str, settings: dict[str, Any], document: Document) -> Iterator[Finding]:
    known = FIXERS[name].settings
    for key, value in settings.items():
        path = (SECTION, name, key)
        if not known:
            yield document.problem(path, f"{name} has no settings; write auto, off or never")
        elif key not in known:
            yield document.problem(path, f"{name} has no such setting; {_nearest(key, known)}")
        elif not isinstance(value, known[key]) or (isinstance(value, bool) and bool not in known[key]):
            yield document.problem(path, f"should be {TYPE_NAMES[known[key]]}, got {shown_value(value)}")
        elif any("\0" in text for _, text in texts_in(value, ())):
            yield document.problem(path, "must not contain a NUL character")
        elif known[key] is VERSION:
            yield from _version(path, value, document)


def _version(path: tuple[str, ...], value: object, document: Document) -> Iterator[Finding]:
    try:
        parse_torch_requirement(value)
    except BadTorch as error:
        hint = document.as_typed(path, f'"{error.nearest}"') if error.nearest else ""
        yield document.problem(path, str(error), hint)


def _is_allowed(name: str, value: object) -> bool:
    """Return True for an allowed word. 0 and 1 are not accepted as False and True."""
    return any(
        value is word or (isinstance(value, str) and value == word) for word in (*MODES, *EXTRA_MODES.get(name, ()))
    )


def _allowed(name: str) -> str:
    settings = FIXERS[name].settings
    words = ["auto", "off", "never", *(str(word) for word in EXTRA_MODES.get(name, ()) if word is not True)]
    return ", ".join(words) + (f" or its settings ({', '.join(settings)})" if settings else "")


def _suggestion(document: Document, name: str, value: object) -> str:
    near = difflib.get_close_matches(str(value).lower(), ("auto", "off", "never", "create"), n=1, cutoff=0.5)
    word = "auto" if value is True else near[0] if near else ""
    typed = document.as_typed((SECTION, name), word)
    return (typed if typed.startswith("--set") else f"{SECTION}: {{{typed}}}") if word else ""


def _nearest(name: object, known: dict[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
