"""What a config's last fix and proof on a host showed, kept for the report: stages that hold are not done again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pipeline.files import write_whole
from pipeline.report.model import Cure, Fix
from remote.protocol.proof import ProofReport
from remote.protocol.values import Malformed, decode, dumps


@dataclass(frozen=True)
class Story:
    """The parts of a report that only the moment itself can tell."""

    proof: ProofReport | None = None
    fixes: tuple[Fix, ...] = ()
    cures: tuple[Cure, ...] = ()


def read_story(path: Path) -> Story:
    """What was kept; nothing where it cannot be read."""
    try:
        return decode(Story, json.loads(path.read_bytes()))
    except (OSError, ValueError, Malformed):
        return Story()


def write_story(path: Path, story: Story) -> None:
    """It is kept, whole."""
    write_whole(path, dumps(story))
