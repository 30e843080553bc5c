"""Find the bfloat16 values that a file assigns to options, with their spelling."""

from __future__ import annotations

import ast
import re

from fixers.sources.chosen_words import chosen_name
from fixers.sources.python import PythonSource
from fixers.sources.readers.consumers import BF16Value
from fixers.sources.readers.reader import BF16_WORD, option_name
from fixers.sources.readers.subjects import NAMES_PRECISION

OPTION_NAME = re.compile(r"(?:.*[._-])?(?:d_?type|\w*_type|precision|amp|weights)$", re.IGNORECASE)
IN_TEXT = re.compile(
    rb"(?<![\w.-])([\w.-]{1,120})[\"']?(?:[ \t]{0,40}[:=]|(?=[ \t]))[ \t]{0,200}(?:(?:\\\n?|\n)[ \t]{0,200})?"
    rb"[\"']?(?:\$\{\w{0,120}:-)?"
    rb"((?:torch\.)?b(?:f|float)16(?:[-_]mixed)?)\b",
    re.IGNORECASE,
)
ACCELERATE_KEY = b"compute_environment"
WORDS = (b"bf16", b"bfloat16", b"BF16")


def bf16_values_in_python(source: PythonSource) -> tuple[BF16Value, ...]:
    """Return the bfloat16 strings that the module assigns to options."""
    found: dict[BF16Value, None] = {}
    for node in source.names.of_type(ast.Constant):
        if isinstance(node.value, str) and BF16_WORD.fullmatch(node.value):
            name = chosen_name(source, node, OPTION_NAME)
            if name is not None:
                found[BF16Value(option_name(name), node.value, source.path)] = None
    return tuple(found)


def bf16_values_in_text(path: str, data: bytes) -> tuple[BF16Value, ...]:
    """Return the bfloat16 values that follow an option's name in a settings or command file."""
    if not any(word in data for word in WORDS) or ACCELERATE_KEY in data:
        return ()
    found: dict[BF16Value, None] = {}
    for match in IN_TEXT.finditer(data):
        name, word = option_name(match[1].decode()), match[2].decode()
        if NAMES_PRECISION.fullmatch(name):
            found[BF16Value(name, word, path)] = None
    return tuple(found)
