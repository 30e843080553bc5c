"""Build the outcome of a verb that operates on a recorded run."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from pipeline.records.runs import RunNote


def outcome_for(verb: str, note: RunNote) -> Outcome:
    """Return an outcome with the run's host, config and name, and without findings."""
    return Outcome(verb, host=note.host, config=note.config, given=note.given, run=note.name, foreign=not note.own)
