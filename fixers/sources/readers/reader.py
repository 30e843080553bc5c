"""A reader, which is one place that reads an option, with the values it accepts; and the fields of settings classes."""

from __future__ import annotations

import re
from dataclasses import dataclass

ANY = "*"
"""The option of a reader that may read any option, such as a parameter called `name` or an exported table."""
HALF_SPELLINGS = (
    *("fp16", "float16", "half", "16-mixed", "fp16-mixed", "fp16_mixed", "16_mixed", "16", "torch.float16", "f16"),
    *("FP16", "FLOAT16", "HALF", "Float16", "Half"),
)
FULL_SPELLINGS = ("fp32", "float32", "float", "32", "32-true", "fp32_true", "no", "torch.float32", "FP32", "FLOAT32")
BF16_WORD = re.compile(r"(?:torch\.)?b(?:f|float)16(?:[-_](?:mixed|true))?", re.IGNORECASE)
DTYPE = "dtype:"
"""The prefix of a word that is a torch dtype and not a string: `dtype:bfloat16`."""
NUMBER = "number:"
"""The prefix of a word that is a number, as in `precision: 16`."""


@dataclass(frozen=True)
class Reader:
    """One place that reads an option. `words` are the values that it accepts, those for bfloat16 among them.

    `strict`: any other value fails or selects float32. `extensible`: bf16-to-fp16 adds the float16 word there.
    `folds`: it ignores case. `owner`: the function or class around it.
    `display`: it is a list of words, which selects nothing by itself. `condition`: the test of the `if` around it.
    """

    path: str
    line: int
    option: str
    words: tuple[str, ...]
    strict: bool = True
    extensible: bool = False
    folds: bool = False
    owner: str = ""
    display: bool = False
    condition: str = ""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def is_same(self, other: Reader) -> bool:
        """Return True for the same unchanged reader, whose line may have moved."""
        return (self.path, self.option, self.words, self.owner) == (other.path, other.option, other.words, other.owner)

    def accepts(self, word: str) -> bool:
        return word in self.words or (self.folds and word.lower() in (each.lower() for each in self.words))

    @property
    def accepted(self) -> str:
        """The accepted values, for a message."""
        return ", ".join(shown(each) for each in self.words)


@dataclass(frozen=True)
class Fields:
    """The switches for bfloat16 and float16 that a class declares, and its base classes by their last names.

    `declares_both`: a base class is imported from a library that declares both switches.
    """

    path: str
    line: int
    name: str
    names: tuple[str, ...]
    bases: tuple[str, ...] = ()
    declares_both: bool = False

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Overwritten:
    """A switch of a settings object that a line of the project overwrites: setting it has no effect."""

    owner: str
    name: str
    where: str


@dataclass(frozen=True)
class HalfWithout:
    """A switch for bfloat16, and the line of the project that selects float16 if the switch is off."""

    name: str
    where: str


@dataclass(frozen=True)
class Unscaled:
    """An option in whose dtype FSDP computes gradients, in a project that never scales its loss."""

    option: str
    where: str


def shown(word: str) -> str:
    """Return the word as code writes it."""
    return word.removeprefix(DTYPE).removeprefix(NUMBER)


def same_option(one: str, other: str) -> bool:
    """Return True if one name is the other or ends with it, as `mixed_precision` and `precision`."""
    return one == other or one.endswith(f"_{other}") or other.endswith(f"_{one}")


def option_name(name: str) -> str:
    """Return the last part of a dotted or dashed name: `--mixed-precision` and `train.mixed_precision` are the same."""
    return name.lstrip("-+").replace("-", "_").rpartition(".")[2].lower()
