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
    """Copies the example of that name; keywords are added to the environment of everything run in it.

    Examples that take everybody's port take turns, whichever process of the test run they are in.
    """
    with (tmp_path_factory.getbasetemp().parent / "port.lock").open("w") as turn:

        def copy(name: str, **environment: str) -> Example:
            copied = copy_example(name, tmp_path, **environment)
            if any(DEFAULT_PORT in data for data in copied.files().values()):
                fcntl.flock(turn, fcntl.LOCK_EX)
            return copied

        yield copy
