"""Files are measured in decimal units, memory in the binary units of nvidia-smi."""

from __future__ import annotations

import pytest

from remote.protocol.quantities import count, memory, size


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (2**34, "16 GiB"),
        (1010 * 2**30, "1010 GiB"),
        (2**42, "4096 GiB"),
    ],
)
def test_memory_has_binary_units(bytes_: int, words: str) -> None:
    assert memory(bytes_) == words


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [(0, "0 B"), (999, "999 B"), (1_234_567, "1.2 MB"), (100 * 10**6, "100.0 MB"), (3 * 10**12, "3.0 TB")],
)
def test_files_have_decimal_units(bytes_: int, words: str) -> None:
    assert size(bytes_) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 files"), (1, "1 file"), (20_000, "20,000 files")])
def test_a_count_agrees_with_its_noun(number: int, words: str) -> None:
    assert count(number, "file") == words
