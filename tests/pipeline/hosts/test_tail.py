"""The end of an output takes little memory, and has the right line numbers."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.hosts.tail import Tail, tail_of
from pipeline.stages import train

ERROR = b"ValueError: Attempting to unscale FP16 gradients.\n"


@given(st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\x00", b"\n")), max_size=12), st.integers(1, 9))
def test_the_kept_bytes_are_the_last_ones_and_their_first_line_is_counted(blocks: list[bytes], limit: int) -> None:
    tail, whole = Tail(limit), b"".join(blocks)
    for block in blocks:
        tail.feed(block)
    kept, first = tail.end()
    assert kept == whole[max(0, len(whole) - limit) :]
    assert first == whole[: len(whole) - len(kept)].count(b"\n") + 1


@pytest.mark.parametrize(
    ("lines", "expected"), [(0, (b"", 4)), (1, (b"c", 3)), (2, (b"b\nc", 2)), (9, (b"a\nb\nc", 1))]
)
def test_the_last_lines_include_an_unfinished_one(lines: int, expected: tuple[bytes, int]) -> None:
    found, first = tail_of(io.BytesIO(b"a\nb\nc")).end(lines)
    assert found == expected[0]
    assert first == (expected[1] if lines else 3)


def test_SE_the_output_of_a_failed_job_is_diagnosed_in_limited_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One emoji makes every decoded character of a text take 4 bytes."""
    log = tmp_path / "a/b/c/output.log"
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.write(b"\n" * 7 + "\U0001f600".encode())
        for _ in range(128):
            file.write(b"a" * 2**20)
        file.write(b"\n" + ERROR)
    monkeypatch.setattr(train, "pull_log", lambda *_: SimpleNamespace(path=log))
    tracemalloc.start()
    try:
        report = train.diagnose_output(None, "p", "r", 1, tmp_path / "a/b/c/d", ())  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [one.check for one in report.findings] == ["fp16-unscale"]
    assert report.findings[0].where.endswith("line 9")
    assert peak < 96 * 2**20
