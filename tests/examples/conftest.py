"""Fresh copies of the examples."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.examples.driver import Example, copy_example

DEFAULT_PORT = b"29500"


@pytest.fixture
def example(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Example]]:
    """Copies the example of that name; keyword arguments are environment variables of every command run in the copy.

    Examples that use port 29500 wait for each other, even in different processes of a test run.
    """
    with (tmp_path_factory.getbasetemp().parent / "port.lock").open("w") as turn:

        def copy(name: str, **environment: str) -> Example:
            copied = copy_example(name, tmp_path, **environment)
            if any(DEFAULT_PORT in data for data in copied.files().values()):
                fcntl.flock(turn, fcntl.LOCK_EX)
            return copied

        yield copy
