"""A trainer's output for the screen: bytes in pieces to lines, progress bars collapsed to their last state."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from remote.protocol.lines import LineCollapser


class OutputLines:
    """Whole lines out of bytes as they come; a line still being redrawn is held back until it is finished."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._collapser = LineCollapser()

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that are whole by now."""
        return self._collapser.feed(self._decoder.decode(data))

    def end(self) -> Iterator[str]:
        """What is left, with or without its end."""
        return self._collapser.feed(self._decoder.decode(b"", final=True), final=True)
