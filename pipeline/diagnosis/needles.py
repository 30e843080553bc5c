"""Extract words from a regular expression for a fast search: every match contains one of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

SHORTEST = 3
QUANTIFIERS = "?*+{"
MAY_BE_ABSENT = ("?", "*", "{0", "{,")


def needles_of(regex: str) -> tuple[str, ...]:
    """Return words such that every match contains at least one of them, or () if no such words can be determined.

    Unsupported syntax is skipped.
    """
    if "(?i" in regex or "(?x" in regex:
        return ()
    found: list[str] = []
    for alternative in _split(regex):
        best = _best(alternative)
        if not best:
            return ()
        found += best
    return tuple(found)


def _best(alternative: str) -> tuple[str, ...]:
    """Return the most selective set of required words: the set whose shortest word is the longest."""
    required: list[tuple[str, ...]] = [(word,) for word in _words(alternative)]
    required += [needles_of(group) for group in _groups(alternative)]
    return max((each for each in required if each), key=lambda each: min(map(len, each)), default=())


def _split(regex: str) -> list[str]:
    """Split the expression at each `|` outside of groups and character classes."""
    cuts = [at for at, piece, depth in _pieces(regex) if piece == "|" and depth == 0]
    return [regex[a + 1 : b] for a, b in zip([-1, *cuts], [*cuts, len(regex)], strict=True)]


def _groups(alternative: str) -> Iterator[str]:
    """Yield the contents of the outermost groups that are not optional."""
    opened = 0
    for at, piece, depth in _pieces(alternative):
        if piece == "(" and depth == 0:
            opened = at + 1
        if piece == ")" and depth == 1 and not alternative.startswith(MAY_BE_ABSENT, at + 1):
            inside = alternative[opened:at]
            if not inside.startswith("?") or inside.startswith("?:"):
                yield inside.removeprefix("?:")


def _words(alternative: str) -> Iterator[str]:
    """Yield runs of literal characters outside of groups."""
    word = ""
    for at, piece, depth in _pieces(alternative):
        plain = piece[-1] if len(piece) == 2 and not piece[1].isalnum() else piece
        follows = alternative[at + len(piece) : at + len(piece) + 1]
        if depth == 0 and len(plain) == 1 and (len(piece) == 2 or piece not in ".^$()[]{}?*+|"):
            if follows and follows in QUANTIFIERS:
                plain = ""
            word += plain
            if plain:
                continue
        if len(word) >= SHORTEST:
            yield word
        word = ""
    if len(word) >= SHORTEST:
        yield word


def _pieces(regex: str) -> Iterator[tuple[int, str, int]]:
    """Yield position, text and depth of each piece.

    An escape, a character class or a `{...}` quantifier is one piece.
    """
    at = depth = 0
    while at < len(regex):
        size = _size(regex, at)
        piece = regex[at : at + size]
        yield at, piece, depth
        depth += {"(": 1, ")": -1}.get(piece, 0)
        at += size


def _size(regex: str, at: int) -> int:
    if regex[at] == "\\":
        return 2
    if regex[at] == "[":
        end = at + 1 + (regex[at + 1] == "^")
        end += regex[end] == "]"
        while regex[end] != "]":
            end += 2 if regex[end] == "\\" else 1
        return end + 1 - at
    if regex[at] == "{" and "}" in regex[at:]:
        return regex.index("}", at) + 1 - at
    return 1
