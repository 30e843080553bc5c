"""The warning about a bfloat16 value that is not replaced, because project code rejects the float16 value."""

from __future__ import annotations

from fixers.sources.readers.reader import Fields, HalfWithout, Overwritten, Reader, Unscaled

Refusing = Reader | Fields | Overwritten | HalfWithout | Unscaled


def refusal_of(word: str, refused: Refusing, wanted: str) -> tuple[str, str]:
    """Return the message and the hint for a value that `refused` rejects."""
    if isinstance(refused, Unscaled):
        message = f"{word} stays: {refused.where} computes gradients in this dtype, and the loss is not scaled"
        return message, "scale the loss with ShardedGradScaler, then run the fixers again"
    if isinstance(refused, HalfWithout):
        return f"{word} stays: without it, {refused.where} selects float16", f"turn {word} off"
    if isinstance(refused, Overwritten):
        return f"{word} stays: {refused.where} overwrites {wanted}", f"set what {refused.where} copies into {wanted}"
    if isinstance(refused, Fields):
        message = f"{word} stays: {refused.name} ({refused.where}) declares {', '.join(refused.names)}, not {wanted}"
        return message, f"add {wanted} to {refused.name} in {refused.path}"
    condition = f"with {refused.condition}, " if refused.condition else ""
    message = f"{word} stays: {condition}{refused.where} accepts only {refused.accepted}"
    return message, f"add {wanted} at {refused.where}"
