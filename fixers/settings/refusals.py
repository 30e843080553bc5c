"""The warning about a bfloat16 value that stays because a line of the project rejects its float16 value."""

from __future__ import annotations

from fixers.sources.readers.reader import Fields, Overwritten, Reader


def refusal_of(word: str, refused: Reader | Fields | Overwritten, wanted: str) -> tuple[str, str]:
    """Return the message, which names the refusing line, and the hint."""
    if isinstance(refused, Overwritten):
        return f"{word} stays: {refused.where} overwrites {wanted}", f"set what {refused.where} copies into {wanted}"
    if isinstance(refused, Fields):
        message = f"{word} stays: {refused.name} ({refused.where}) declares {', '.join(refused.names)}, not {wanted}"
        return message, f"add {wanted} to {refused.name} in {refused.path}"
    message = f"{word} stays: {refused.where} accepts only {refused.accepted}"
    return message, f"add {wanted} at {refused.where}"
