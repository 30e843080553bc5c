"""Fixtures for tests of sync."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.mounts import why_no_mounts
from tests.lab.payload import install_payload
from tests.remote.corpus import data
from tests.remote.sync.sync_bench import Bench, mounted

__all__ = ["data"]


FILES = {
    "train.py": "print('training')\n" * 40,
    "src/model.py": "dtype = 'bfloat16'\n" * 200,
    "src/data/collator.py": "def collate(): ...\n" * 100,
    "src/__init__.py": "",
    "src/data/__init__.py": "",
    "configs/run.yaml": "lr: 2.0e-5\n",
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Six local files, and an empty host."""
    bench = Bench(tmp_path / "speech", install_payload(tmp_path / "workdir"))
    bench.write(FILES)
    (bench.root / "train.py").chmod(0o755)
    yield bench
    bench.close()


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a tmpfs with options; needs root."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    ends: list[Callable[[], None]] = []

    def on(name: str, *options: str) -> Path:
        ends.append(mounted(tmp_path / name, *options))
        return tmp_path / name

    yield on
    for end in reversed(ends):
        end()
