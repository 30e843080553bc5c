"""The warning about a bfloat16 value that is not replaced, because project code rejects the float16 value."""

from __future__ import annotations

from fixers.sources.readers.reader import Fields, Float16WhenOff, Overwritten, Reader, Unscaled

Refusing = Reader | Fields | Overwritten | Float16WhenOff | Unscaled


def refusal_of(word: str, refusing: Refusing, wanted: str) -> tuple[str, str]:
    """Return the message and the hint for a value that `refusing` rejects."""
    if isinstance(refusing, Unscaled):
        message = (
            f"{word} is not replaced: {refusing.where} computes gradients in this dtype, and the loss is not scaled"
        )
        return message, "scale the loss with ShardedGradScaler, then run the fixers again"
    if isinstance(refusing, Float16WhenOff):
        return f"{word} is not replaced: {refusing.where} selects float16 if {word} is off", f"turn {word} off"
    if isinstance(refusing, Overwritten):
        return (
            f"{word} is not replaced: {refusing.where} overwrites {wanted}",
            f"set the option whose value {refusing.where} copies into {wanted}",
        )
    if isinstance(refusing, Fields):
        declared = f"{refusing.name} ({refusing.where}) declares {', '.join(refusing.names)}"
        return (
            f"{word} is not replaced: {declared}, not {wanted}",
            f"add {wanted} to {refusing.name} in {refusing.path}",
        )
    condition = f"with {refusing.condition}, " if refusing.condition else ""
    message = f"{word} is not replaced: {condition}{refusing.where} accepts only {refusing.accepted}"
    return message, f"add {wanted} at {refusing.where}"
