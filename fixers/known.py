"""The fixers there are, in the order in which they act, and the settings that each takes; none of them is imported."""

from __future__ import annotations

Kind = tuple[type, ...]

TEXT: Kind = (str,)
VERSION: Kind = (str, int, float)
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

KNOWN: dict[str, dict[str, Kind]] = {
    "trainer-arguments": {},
    "bf16-probe": {},
    "bf16-to-fp16": {},
    "mixed-precision-config": {},
    "launch-flags": {},
    "attention-to-sdpa": {},
    "device-map": {},
    "local-rank": {},
    "port": {},
    "label-padding": {},
    "scaler-gate": {},
    "loss-fp32": {},
    "trainable-fp32": {},
    "environment": {
        "base": TEXT,
        "torch": VERSION,
        "requirements": FILES,
        "index": TEXT,
        "find_links": TEXT,
        "no_index": FLAG,
    },
    "audio-backends": {},
    "hub-access": {},
    "tokenizer": {"repo": TEXT, "revision": TEXT, "source": TEXT, "folders": LIST},
    "data-collator": {"path": TEXT, "copies": LIST},
    "stale-processes": {},
    "compute-mode": {},
    "flash-attention": {},
    "shared-memory": {},
}
"""By name; the module is `fixers/` and the name with underscores."""
WISHES = ("auto", "off", "never", False)
"""What may be said of any fixer; YAML reads `off` as False."""
ASKED_FOR: dict[str, tuple[str | bool, ...]] = {"environment": ("create", True)}
"""What may be said of some besides."""
