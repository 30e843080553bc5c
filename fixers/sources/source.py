"""One file as input of source fixers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from fixers.sources.python import PythonSource, read_python
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable


@dataclass(frozen=True)
class Source:
    """A file's name and bytes; parsed at most once, however many fixers look at it."""

    path: str
    data: bytes

    def where(self, offset: int) -> str:
        """`path:line`, as findings name it."""
        return f"{self.path}:{line_of(self.data, offset)}"

    @cached_property
    def python(self) -> PythonSource:
        """The file as Python, notebooks included. Raises Unparsable."""
        return read_python(self.path, self.data)

    @property
    def unread(self) -> tuple[Unparsable, ...]:
        """Parts that could not be read, where the file was read as Python at all."""
        python = self.__dict__.get("python")
        return python.unread if python is not None else ()
