"""Parsing Python of foreign projects."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from fixers.sources.syntax import LARGEST_BYTES, LONG_BYTES, MOST_WORDS, Oversized, parse_python

HOSTILE = r"""
import signal
from fixers.sources.syntax import LONG_BYTES, parse_python
signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
print("ready", flush=True)
parse_python("a" + "\u0301" * 250_000 + "\u0323" * 250_000 + " = 1\n")
"""


def test_SE_ctrl_c_ends_a_parse_that_would_take_an_hour() -> None:
    child = subprocess.Popen([sys.executable, "-c", HOSTILE], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        while child.poll() is None:
            child.send_signal(signal.SIGINT)  # the first one may come before the parse begins
            if "handled" not in child.stdout.readline():
                break
        try:
            assert child.wait(timeout=60) == -signal.SIGINT
        finally:
            child.kill()


def test_SE_dense_code_is_refused_before_its_tree_fills_the_memory() -> None:
    with pytest.raises(Oversized, match="200,001 words and signs"):
        parse_python(b"a;" * (MOST_WORDS // 2) + b"a")
    assert parse_python(b"a;" * (MOST_WORDS // 2 - 1) + b"a").body
    written = b"total_value = compute_values(first_argument, second_argument)\n"
    assert parse_python(written * (LARGEST_BYTES // len(written))).body


@pytest.mark.parametrize("source", ["x = 1\n", "x = (\n", "x = 1\n" * LONG_BYTES, "x = (\n" * LONG_BYTES], ids=range(4))
def test_the_handler_of_ctrl_c_is_the_same_after_a_parse(source: str) -> None:
    def handler(*_: object) -> None: ...

    before = signal.signal(signal.SIGINT, handler)
    try:
        with ThreadPoolExecutor(1) as pool, suppress(SyntaxError):
            pool.submit(parse_python, source).result()
        with suppress(SyntaxError):
            parse_python(source)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
