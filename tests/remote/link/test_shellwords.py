"""argv through real login shells, word by word."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remote.link.shellwords import command_line

SHELLS = [shell for shell in ("sh", "bash", "dash", "zsh", "fish", "tcsh") if shutil.which(shell)]
SAY = "import sys; sys.stdout.buffer.write(b'\\0'.join(w.encode('utf-8', 'surrogateescape') for w in sys.argv[1:]))"
WORDS = st.text(alphabet=st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=12)


def through(shell: str, argv: list[str]) -> list[str]:
    line = command_line([sys.executable, "-S", "-c", SAY, *argv])
    done = subprocess.run([shell, "-c", line], capture_output=True, check=True, timeout=30)
    return [word.decode("utf-8", "surrogateescape") for word in done.stdout.split(b"\0")]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_character_arrives(shell: str) -> None:
    words = [chr(code) for code in range(1, 0x180)] + [
        "a'b\"c",
        "$HOME",
        "`id`",
        "!!",
        "\\n",
        "\n\n",
        "~",
        "*",
        "%s %b",
        "é漢",
        "\udcff",
    ]
    assert through(shell, words) == words


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS, min_size=1, max_size=5))
def test_any_words_arrive(shell: str, words: list[str]) -> None:
    assert through(shell, words) == words
