"""Wheels written by hand, and an index that delays one of them, for pip without a network."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.metadata
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TORCH = """
__version__ = "2.13.1"
class cuda:
    @staticmethod
    def is_available():
        return False
    @staticmethod
    def get_arch_list():
        return []
"""
"""A stand-in for a CPU build of torch, with the functions that halfstep calls."""


def wheel(folder: Path, name: str, version: str, code: str, requires: Sequence[str] = ()) -> None:
    """Write a wheel that pip can install."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", code)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


def installed_wheel(folder: Path, name: str) -> None:
    """Write a wheel of an installed package, from its installed files."""
    found = importlib.metadata.distribution(name)
    with zipfile.ZipFile(folder / f"{name}-{found.version}-py3-none-any.whl", "w") as file:
        for path in found.files or ():
            if ".." not in path.parts and path.suffix != ".pyc":
                file.write(path.locate(), path.as_posix())


@dataclass
class SlowIndex:
    """An index that serves the file `held` only after `gate` is set. `asked` is set by the first request for it."""

    held: str
    url: str = ""
    asked: threading.Event = field(default_factory=threading.Event)
    gate: threading.Event = field(default_factory=threading.Event)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, index: SlowIndex, *args: Any, **known: Any) -> None:
        self.index = index
        super().__init__(*args, **known)

    def do_GET(self) -> None:
        if self.path.endswith(self.index.held):
            self.index.asked.set()
            self.index.gate.wait(60)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def slow_index(folder: Path, held: str) -> Iterator[SlowIndex]:
    """Serve the files of the folder until the end of the block."""
    index = SlowIndex(held)
    handler = functools.partial(_Handler, index, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    index.url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield index
    finally:
        index.gate.set()
        server.shutdown()
        server.server_close()
