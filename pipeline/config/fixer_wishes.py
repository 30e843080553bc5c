"""What may be said under `fixers:`: known names, with `auto`, `off`, `never`, or the settings that some have."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from fixers.registry import EXTRA_MODES, FIXERS, MODES, TYPE_NAMES, VERSION
from fixers.setup.torch_requirement import BadTorch, parse_torch_requirement
from pipeline.config.document import Document
from pipeline.config.model import FixersConfig
from remote.protocol.findings import Finding

SECTION = "fixers"


def check_wishes(fixers: FixersConfig, document: Document) -> Iterator[Finding]:
    """A problem for each name that no fixer has, each word that means nothing, each setting that nobody reads."""
    for name, wish in (fixers.model_extra or {}).items():
        if name not in FIXERS:
            yield document.problem((SECTION, name), f"there is no such fixer; {_nearest(name, FIXERS)}")
        elif isinstance(wish, dict):
            yield from _settings(name, wish, document)
        elif not _may_be(name, wish):
            yield document.problem(
                (SECTION, name), f"should be {_words(name)}, got {wish!r}", _meant(document, name, wish)
            )


def _settings(name: str, settings: dict[str, Any], document: Document) -> Iterator[Finding]:
    known = FIXERS[name].settings
    for key, value in settings.items():
        path = (SECTION, name, key)
        if not known:
            yield document.problem(path, f"{name} has no settings; write auto, off or never")
        elif key not in known:
            yield document.problem(path, f"{name} has no such setting; {_nearest(key, known)}")
        elif not isinstance(value, known[key]) or (isinstance(value, bool) and bool not in known[key]):
            yield document.problem(path, f"should be {TYPE_NAMES[known[key]]}, got {value!r}")
        elif known[key] is VERSION:
            yield from _version(path, value, document)


def _version(path: tuple[str, ...], value: object, document: Document) -> Iterator[Finding]:
    try:
        parse_torch_requirement(value)
    except BadTorch as error:
        hint = document.written(path, f'"{error.nearest}"') if error.nearest else ""
        yield document.problem(path, str(error), hint)


def _may_be(name: str, wish: object) -> bool:
    """One of the words; 0 and 1 are none, though Python takes them for False and True."""
    return any(
        wish is word or (isinstance(wish, str) and wish == word) for word in (*MODES, *EXTRA_MODES.get(name, ()))
    )


def _words(name: str) -> str:
    settings = FIXERS[name].settings
    words = ["auto", "off", "never", *(str(word) for word in EXTRA_MODES.get(name, ()) if word is not True)]
    return ", ".join(words) + (f" or its settings ({', '.join(settings)})" if settings else "")


def _meant(document: Document, name: str, wish: object) -> str:
    near = difflib.get_close_matches(str(wish).lower(), ("auto", "off", "never", "create"), n=1, cutoff=0.5)
    word = "auto" if wish is True else near[0] if near else ""
    given = document.written((SECTION, name), word)
    return (given if given.startswith("--set") else f"{SECTION}: {{{given}}}") if word else ""


def _nearest(name: object, known: dict[str, Any]) -> str:
    near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
