"""Decode a trainer's output for the screen: bytes to lines, a redrawn progress bar as its last state."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from remote.protocol.lines import LineCollapser


class OutputLines:
    """Splits a byte stream into lines; a line that is still being redrawn is held back until it is complete."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._collapser = LineCollapser()

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield the lines that are complete after `data`."""
        return self._collapser.feed(self._decoder.decode(data))

    def end(self) -> Iterator[str]:
        """Yield what is left. The last line is complete, so that the prompt of the shell gets a line of its own."""
        for line in self._collapser.feed(self._decoder.decode(b"", final=True), final=True):
            yield line if line.endswith("\n") else f"{line}\n"
