"""Hints that can be typed as they stand: who finds something knows no names, the outcome of a verb does. Pure."""

from __future__ import annotations

import re
import shlex

NEEDS_NAMES = re.compile(r"\bpipeline (run|verify|plan|fix)(?= --|$|[;,.)])")


def typed_out(hint: str, host: str, config: str) -> str:
    """The hint with `--host` and `--config` where a verb in it needs them and has none."""
    if not host or not config or "--host" in hint or "--config" in hint:
        return hint
    names = f" --host {shlex.quote(host)} --config {shlex.quote(config)}"
    return NEEDS_NAMES.sub(lambda match: match.group() + names, hint)
