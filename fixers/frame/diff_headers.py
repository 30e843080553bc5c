"""Names of files in the headers of a diff."""

from __future__ import annotations

from remote.protocol.text import one_line

_QUOTED = {byte: f"\\{byte:03o}" for byte in (*range(32), *range(127, 256))}
_QUOTED |= {ord(char): f"\\{letter}" for char, letter in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)}


def header_name(path: str) -> str:
    """Return the path for a header of a diff. An unusual path is quoted as by git, so that it stays on one line.

    A path with a space ends with a tab, also as by git: GNU patch otherwise reads the name only up to the space. Both
    programs read all these forms.
    """
    if one_line(path) == path and path.isprintable() and '"' not in path and "\\" not in path:
        return f"{path}\t" if " " in path else path
    return f'"{"".join(_QUOTED.get(byte) or chr(byte) for byte in path.encode("utf-8", "surrogateescape"))}"'
