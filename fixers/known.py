"""The fixers there are, in the order in which they act, with their rooms and settings; none of them is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = tuple[type, ...]

TEXT: Kind = (str,)
VERSION: Kind = (str, int, float)
"""A version of torch, a specifier or a requirement: what it says is read by fixers.setup.torch_wish."""
LIST: Kind = (list,)
FILES: Kind = (str, list)
FLAG: Kind = (bool,)

IN_WORDS: dict[Kind, str] = {
    TEXT: "a text",
    VERSION: "a version",
    LIST: "a list",
    FILES: "a file or a list",
    FLAG: "true or false",
}


@dataclass(frozen=True)
class Known:
    """One fixer: the folder of `fixers/` that its module is in, and the settings that it takes."""

    room: Literal["code", "settings", "setup"]
    settings: dict[str, Kind] = field(default_factory=dict)


KNOWN: dict[str, Known] = {
    "trainer-arguments": Known("code"),
    "trainer-resume": Known("code"),
    "bf16-probe": Known("code"),
    "bf16-to-fp16": Known("code"),
    "mixed-precision-config": Known("settings"),
    "launch-flags": Known("settings"),
    "attention-to-sdpa": Known("code"),
    "device-map": Known("code"),
    "local-rank": Known("code"),
    "port": Known("settings"),
    "label-padding": Known("code"),
    "scaler-gate": Known("code"),
    "loss-fp32": Known("code"),
    "trainable-fp32": Known("code"),
    "environment": Known(
        "setup",
        {"base": TEXT, "torch": VERSION, "requirements": FILES, "index": TEXT, "find_links": TEXT, "no_index": FLAG},
    ),
    "audio-backends": Known("setup"),
    "hub-access": Known("setup"),
    "tokenizer": Known("setup", {"repo": TEXT, "revision": TEXT, "source": TEXT, "folders": LIST}),
    "data-collator": Known("setup", {"path": TEXT, "copies": LIST}),
    "stale-processes": Known("setup"),
    "compute-mode": Known("setup"),
    "flash-attention": Known("setup"),
    "shared-memory": Known("setup"),
}
"""By name; the module is `fixers/`, the room and the name with underscores."""
WISHES = ("auto", "off", "never", False)
"""What may be said of any fixer; YAML reads `off` as False."""
ASKED_FOR: dict[str, tuple[str | bool, ...]] = {"environment": ("create", True)}
"""What may be said of some besides."""


def module_of(name: str) -> str:
    """What a known fixer's module is imported by."""
    return f"fixers.{KNOWN[name].room}.{name.replace('-', '_')}"
