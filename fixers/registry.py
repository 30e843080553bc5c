"""All fixers by name, in the order of execution, with the settings that each accepts.

The module of a fixer is imported on first use.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Literal, cast

from remote.protocol.dataclass import dataclass, field

if TYPE_CHECKING:
    from fixers.frame.site import Fixer
    from fixers.frame.source_fixer import SourceFixer

SettingType = tuple[type, ...]

TEXT: SettingType = (str,)
VERSION: SettingType = (str, int, float)
"""A version of torch, a specifier or a requirement, parsed by fixers.setup.torch_requirement."""
LIST: SettingType = (list,)
FILES: SettingType = (str, list)
FLAG: SettingType = (bool,)

TYPE_NAMES: dict[SettingType, str] = {
    TEXT: "a string",
    VERSION: "a version",
    LIST: "a list",
    FILES: "a file or a list",
    FLAG: "true or false",
}


@dataclass(frozen=True)
class FixerEntry:
    """One fixer: the folder of `fixers/` that holds its module, its version, and the settings that it accepts.

    The version increases when the fixer's output for the same input changes.
    """

    folder: Literal["code", "settings", "setup"]
    version: int
    settings: dict[str, SettingType] = field(default_factory=dict)


FIXERS: dict[str, FixerEntry] = {
    "trainer-arguments": FixerEntry("code", 10),
    "trainer-resume": FixerEntry("code", 2),
    "bf16-probe": FixerEntry("code", 4),
    "bf16-to-fp16": FixerEntry("code", 32),
    "mixed-precision-config": FixerEntry("settings", 15),
    "launch-flags": FixerEntry("settings", 12),
    "attention-to-sdpa": FixerEntry("code", 17),
    "device-map": FixerEntry("code", 5),
    "local-rank": FixerEntry("code", 5),
    "port": FixerEntry("settings", 2),
    "label-padding": FixerEntry("code", 9),
    "scaler-gate": FixerEntry("code", 12),
    "loss-fp32": FixerEntry("code", 7),
    "trainable-fp32": FixerEntry("code", 18),
    "environment": FixerEntry(
        "setup",
        5,
        {"base": TEXT, "torch": VERSION, "requirements": FILES, "index": TEXT, "find_links": TEXT, "no_index": FLAG},
    ),
    "audio-backends": FixerEntry("setup", 4),
    "hub-access": FixerEntry("setup", 1),
    "tokenizer": FixerEntry("setup", 1, {"repo": TEXT, "revision": TEXT, "source": TEXT, "folders": LIST}),
    "data-collator": FixerEntry("setup", 1, {"path": TEXT, "copies": LIST}),
    "stale-processes": FixerEntry("setup", 1),
    "compute-mode": FixerEntry("setup", 1),
    "flash-attention": FixerEntry("setup", 1),
    "shared-memory": FixerEntry("setup", 1),
    "runtime": FixerEntry("setup", 1),
}
"""Source fixers run on a file in this order: renames first, then precision changes, then inserted casts."""
SOURCE_NAMES = tuple(name for name, entry in FIXERS.items() if entry.folder != "setup")
SETUP_NAMES = tuple(name for name, entry in FIXERS.items() if entry.folder == "setup")
MODES = ("auto", "off", "never", False)
"""The modes that every fixer accepts; YAML parses `off` as False."""
OFF = ("off", False, "never")
"""`off` allows a cure to enable the fixer after a failure; `never` does not."""
EXTRA_MODES: dict[str, tuple[str | bool, ...]] = {"environment": ("create", True)}
"""Additional modes, by fixer."""


def version_of(name: str) -> int:
    """Return the version of a fixer."""
    return FIXERS[name].version


def module_name(name: str) -> str:
    """Return the dotted name of a fixer's module."""
    return f"fixers.{FIXERS[name].folder}.{name.replace('-', '_')}"


@cache
def source_fixers() -> tuple[SourceFixer, ...]:
    """Return the modules of all source fixers, in the order of execution."""
    return tuple(cast("SourceFixer", importlib.import_module(module_name(name))) for name in SOURCE_NAMES)


@cache
def setup_fixers() -> tuple[Fixer, ...]:
    """Return the modules of all setup fixers, in the order of execution."""
    return tuple(cast("Fixer", importlib.import_module(module_name(name))) for name in SETUP_NAMES)
