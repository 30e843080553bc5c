"""What the command lines of Python and of torchrun show: whether Python reads PYTHONPATH, and torchrun's store."""

from __future__ import annotations

import re
from posixpath import basename
from typing import Dict, List, Optional, Sequence

ELASTIC = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
FILES = ("torch/distributed/run.py", "torch/distributed/launch.py")
MODULE = re.compile(r"-[A-Za-z]*m(.+)")
WITHIN = 100
"""The number of words among which a launcher is looked for: later ones are arguments of a script."""
FLAGS = ("standalone", "module", "no-python", "run-path", "use-env", "virtual-local-rank", "help")
"""The options of torchrun that have no value (torch 2.13). torchrun accepts unique abbreviations of its options."""
LETTERS = ("m", "h")
STORES = ("master-port", "rdzv-endpoint")
SHORTEST = 3


def launcher_at(words: Sequence[str]) -> int:
    """Return the position of torchrun in a command line, or -1. `python -mtorch.distributed.run` is a torchrun too.

    A name after `python SCRIPT` is an argument of the script.
    """
    after_python = False
    for at, word in enumerate(words[:WITHIN]):
        if _starts_elastic(word):
            return at
        if after_python and word.endswith(".py"):
            break
        after_python = after_python or basename(word).startswith("python")
    return -1


def _starts_elastic(word: str) -> bool:
    module = MODULE.fullmatch(word)
    return basename(word) in ELASTIC or word.endswith(FILES) or (module is not None and module[1] in ELASTIC)


def unpickles_state(words: Sequence[str]) -> bool:
    """Return True for a torchrun that unpickles the state in its store.

    torchrun of torch 2.13 creates such a store by itself if it gets neither a port nor an endpoint. Options after the
    training script are those of the script.
    """
    at = launcher_at(words)
    if at < 0:
        return False
    options = _options_of(words[at + 1 :])
    if _value_of(options, "standalone") is not None or _value_of(options, "rdzv-backend") == "c10d":
        return True
    return all(_value_of(options, name) is None for name in STORES)


def _options_of(words: Sequence[str]) -> Dict[str, str]:
    """Return the options before the training script, each with its value, or "" for none."""
    options: Dict[str, str] = {}
    remaining = list(words)
    while remaining and remaining[0].startswith("-") and remaining[0] not in ("-", "--"):
        word = remaining.pop(0)
        name, _, value = word.lstrip("-").replace("_", "-").partition("=")
        if not word.startswith("--"):
            has_value = name not in LETTERS and len(word) == 2
        else:
            has_value = "=" not in word and not _is_flag(name)
            value = word.partition("=")[2]
        options[name] = remaining.pop(0) if has_value and remaining else value
    return options


def _is_flag(name: str) -> bool:
    return any(flag == name or (len(name) >= SHORTEST and flag.startswith(name)) for flag in FLAGS)


def _value_of(options: Dict[str, str], option: str) -> Optional[str]:
    """Return the value of the option, given by its name or an abbreviation of at least its first word, else None."""
    shortest = max(SHORTEST, option.find("-") + 2)
    return next((value for name, value in options.items() if len(name) >= shortest and option.startswith(name)), None)


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
