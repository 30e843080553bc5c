"""Types for the places that read a precision option, and for settings classes that declare precision switches."""

from __future__ import annotations

import re

from remote.protocol.dataclass import dataclass

ANY = "*"
"""The option name of a reader whose option is unknown, such as a parameter `name` or a table without lookups."""
HALF_SPELLINGS = (
    *("fp16", "float16", "half", "16-mixed", "fp16-mixed", "fp16_mixed", "16_mixed", "16", "torch.float16", "f16"),
    *("FP16", "FLOAT16", "HALF", "Float16", "Half"),
)
FULL_SPELLINGS = ("fp32", "float32", "float", "32", "32-true", "fp32_true", "no", "torch.float32", "FP32", "FLOAT32")
BF16_WORD = re.compile(r"(?:torch\.)?b(?:f|float)16(?:[-_](?:mixed|true))?", re.IGNORECASE)
DTYPE = "dtype:"
"""The prefix of an accepted value that is a torch dtype: `dtype:bfloat16`."""
NUMBER = "number:"
"""The prefix of an accepted value that is a number, as in `precision: 16`."""


@dataclass(frozen=True)
class Reader:
    """One place that reads an option. `words` are the accepted values, including one for bfloat16.

    `strict`: any other value raises an error or selects float32. `extensible`: bf16-to-fp16 can add a float16 value.
    `folds`: the reader ignores case. `owner`: the enclosing function or class. `display`: the reader is a list of
    accepted values and selects no dtype. `condition`: the test of the enclosing `if`.
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
        """Return True if both readers are equal in path, option, accepted values and owner. Line numbers may differ."""
        return (self.path, self.option, self.words, self.owner) == (other.path, other.option, other.words, other.owner)

    def accepts(self, word: str) -> bool:
        return word in self.words or (self.folds and word.lower() in (each.lower() for each in self.words))

    @property
    def accepted(self) -> str:
        """The accepted values as text for a message."""
        return ", ".join(shown(each) for each in self.words)


@dataclass(frozen=True)
class Fields:
    """The bfloat16 and float16 switches that a class declares, and the unqualified names of its bases.

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
    """A switch of a settings object that project code overwrites, so that setting it has no effect."""

    owner: str
    name: str
    where: str


@dataclass(frozen=True)
class Float16WhenOff:
    """A bfloat16 switch, and the line (`path:line`) that selects float16 if the switch is off."""

    name: str
    where: str


@dataclass(frozen=True)
class Unscaled:
    """An option that sets the dtype of FSDP's gradients in a project without loss scaling."""

    option: str
    where: str


def shown(word: str) -> str:
    """Return an accepted value in Python syntax."""
    return word.removeprefix(DTYPE).removeprefix(NUMBER)


def same_option(one: str, other: str) -> bool:
    """Return True if the names are equal or one ends with the other, such as `mixed_precision` and `precision`."""
    return one == other or one.endswith(f"_{other}") or other.endswith(f"_{one}")


def option_name(name: str) -> str:
    """Return the last part of the name, with underscores.

    It is `mixed_precision` for `--mixed-precision` and for `a.mixed_precision`.
    """
    return name.lstrip("-+").replace("-", "_").rpartition(".")[2].lower()
