"""The outcome of a verb that takes a run: host, config and run come from the run's record."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from pipeline.records.runs import RunNote


def outcome_for(verb: str, note: RunNote) -> Outcome:
    """Return an outcome without findings, for `dataclasses.replace` to complete."""
    return Outcome(verb, host=note.host, config=note.config, given=note.given, run=note.name)
