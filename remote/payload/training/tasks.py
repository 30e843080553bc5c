"""The prompt and the reference answer of a recording for a task: built in, from `messages`, or from a template."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from remote.payload.training.prompts import PROMPTS, target_of
from remote.payload.training.recordings import Recording
from remote.protocol.training import MESSAGES, Template

FIELD = re.compile(r"\{([A-Za-z_]\w*)\}")


def example_of(task: str, recording: Recording, templates: Mapping[str, Template]) -> Optional[Tuple[str, str]]:
    """Return prompt and reference answer, or None if the recording has no annotation for the task."""
    if task in templates:
        prompt, target = (fill(text, recording.row) for text in (templates[task].prompt, templates[task].target))
        return (prompt, target) if prompt is not None and target is not None else None
    if task == MESSAGES:
        return (recording.dialogue[0], recording.dialogue[1]) if recording.dialogue else None
    built_in = target_of(task, recording)
    return (PROMPTS[task], built_in) if built_in is not None else None


def fill(template: str, row: Dict[str, Any]) -> Optional[str]:
    """Return the template with {NAME} replaced with the columns of the row, or None if a column is missing."""
    names = FIELD.findall(template)
    if any(row.get(name) is None for name in names):
        return None
    return FIELD.sub(lambda match: _as_text(row[match[1]]), template)


def _as_text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
