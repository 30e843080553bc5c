"""Match names with the patterns of known_hosts, in a time that is proportional to the length of the pattern."""

from __future__ import annotations

from functools import lru_cache


def matches_pattern(name: str, pattern: str) -> bool:
    """Return True if the pattern matches the whole name. `*` matches any text, `?` one character (sshd(8)).

    A file may contain a hundred thousand patterns, so none is compiled, and no text is tried twice.
    """
    if "*" not in pattern and "?" not in pattern:
        return name == pattern
    positions, everywhere = _positions(name)
    # Bit n is set if the part of the pattern that was read matches the first n characters of the name.
    matched = 1
    for character in pattern:
        if character == "*":
            matched = everywhere & -(matched & -matched)
        elif character == "?":
            matched = (matched << 1) & everywhere
        else:
            matched = (matched & positions.get(character, 0)) << 1
        if not matched:
            return False
    return bool(matched >> len(name))


@lru_cache(maxsize=16)
def _positions(name: str) -> tuple[dict[str, int], int]:
    """Return the positions of each character in the name as bits, and the bits of all positions and of the end."""
    positions: dict[str, int] = {}
    for position, character in enumerate(name):
        positions[character] = positions.get(character, 0) | 1 << position
    return positions, (1 << len(name) + 1) - 1
