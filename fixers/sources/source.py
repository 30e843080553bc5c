"""One file as the input of source fixers."""

from __future__ import annotations

from functools import cached_property

from fixers.sources.lines import strings_of_notebook
from fixers.sources.python import TREES, PythonSource
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Source:
    """A file's name and bytes, parsed at most once for all fixers."""

    path: str
    data: bytes

    def where(self, offset: int) -> str:
        """Return the position as `path:line`."""
        return f"{self.path}:{line_of(self.data, offset)}"

    @cached_property
    def python(self) -> PythonSource:
        """Return the file as Python, notebooks included. Raises Unparsable."""
        return TREES.take(self.path, self.data)

    @property
    def searched(self) -> bytes:
        """The bytes without lines that are too long to be searched with patterns. Only notebooks have such lines."""
        return strings_of_notebook(self.data) if self.path.endswith(".ipynb") else self.data

    @property
    def unread(self) -> tuple[Unparsable, ...]:
        """Return the errors of parts that do not parse. The tuple is empty if the file was not parsed as Python."""
        python = self.__dict__.get("python")
        return python.unread if python is not None else ()
