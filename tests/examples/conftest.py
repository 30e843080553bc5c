"""Fresh copies of the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples.driver import Example, copy_example


@pytest.fixture
def example(tmp_path: Path) -> Callable[..., Example]:
    """Copies the example of that name; keywords are added to the environment of everything run in it."""

    def copy(name: str, **environment: str) -> Example:
        return copy_example(name, tmp_path, **environment)

    return copy
