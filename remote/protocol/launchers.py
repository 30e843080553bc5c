"""What the command lines of Python and of torchrun show: whether Python reads PYTHONPATH, and torchrun's store."""

from __future__ import annotations

import re
from posixpath import basename
from typing import List, Sequence

ELASTIC = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
WITHIN = 16
"""The number of words among which a launcher is looked for: later ones are arguments of a script."""
WITH_STATE = re.compile(r"--standalone\b|--rdzv[-_]backend[= ]c10d\b")
WITHOUT_STATE = re.compile(r"--(?:master[-_]port|rdzv[-_]endpoint)\b")


def is_elastic(words: Sequence[str]) -> bool:
    """Return True for the command line of a torchrun."""
    return any(basename(word) in ELASTIC for word in words[:WITHIN])


def unpickles_state(words: Sequence[str]) -> bool:
    """Return True for a torchrun that unpickles the state in its store.

    torchrun of torch 2.13 creates such a store by itself if it gets neither a port nor an endpoint.
    """
    text = " ".join(words)
    return is_elastic(words) and (WITH_STATE.search(text) is not None or WITHOUT_STATE.search(text) is None)


def isolating_flag(arguments: Sequence[str]) -> str:
    """Return the first of Python's own flags -I, -E and -S in this command line, or "".

    Flags may be joined, as in -IB.
    """
    remaining: List[str] = list(arguments[1:])
    while remaining and remaining[0].startswith("-") and not remaining[0].startswith("--") and remaining[0] != "-":
        letters = remaining.pop(0)[1:]
        for at, letter in enumerate(letters):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm":
                return ""
            if letter in "WX":
                # The option's argument is the rest of this word, or the next word.
                remaining = remaining if letters[at + 1 :] else remaining[1:]
                break
    return ""
