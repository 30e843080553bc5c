"""The edits of one file of commands: flags, their values, assignments, and what only a person can decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fixers.edit_list import EditList
from fixers.precision_words import (
    ATTENTION,
    FLASH_SWITCH,
    FLASH_VALUE,
    IS_BF16,
    IS_TF32,
    LIKE_BF16,
    LIKE_FP16,
    MEANS_PRECISION,
    NEEDS_FLASH,
    NO_FLASH_SWITCH,
    NO_TWIN,
    NO_TWIN_WORDS,
    TWINS,
    WHY_BF16,
    WHY_FLASH,
    WHY_PACKING,
    WHY_REDUCE,
    WHY_TF32,
    as_false,
    as_true,
    fp16_name,
    is_false,
    is_true,
    option,
    twin_of,
)
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Assignment, Command, Script, Word

SHOWS = {"echo", "printf", "grep", "egrep", "rg", "test", "[", "[[", "git", "pip", "conda", "sed", "awk", "case"}
KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "sudo", "exec"}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "/bin/sh", "/bin/bash", "/usr/bin/bash"}
RUNS_TEXT = re.compile(r"-[a-z]*c")
PRECISION_VARIABLES = ("ACCELERATE_MIXED_PRECISION",)
VARIABLE = re.compile(r"\"?\$(?:\{(\w+)(?::?-([^}\"$`]*))?\}|\((\w+)\)|(\w+))\"?")
OVERRIDE = re.compile(r"(\+{0,2}|--)([\w.-]+)=(.*)", re.DOTALL)
SWITCHES = (LIKE_BF16, LIKE_FP16, IS_TF32, FLASH_SWITCH, NO_FLASH_SWITCH)
FLAG = re.compile(r"--?[A-Za-z][\w.-]*")


@dataclass(frozen=True)
class Piece:
    """Bytes that one argument gives as a value: where they are and what they say; `text` None where the shell says."""

    start: int
    end: int
    text: str | None
    raw: str


@dataclass(frozen=True)
class Given:
    """One option of a command: its name as configs spell it, the flag's own place, and its value where it has one."""

    name: str
    flag: Piece
    value: Piece | None


@dataclass
class Launch:
    """The commands of one file; `found` is what comes of them, `linked` the variables that options take values from."""

    found: EditList
    linked: set[str] = field(default_factory=set)

    @property
    def data(self) -> bytes:
        return self.found.data

    def replace(self, piece: Piece, text: str, why: str) -> None:
        if self.data[piece.start : piece.end] != text.encode():
            self.found.put(piece.start, piece.end, text.encode(), why)

    def read(self, script: Script) -> None:
        """Every command judged; then the variables that gave precision options their values."""
        for command in script.commands:
            self.judge(command)
        for command in script.commands:
            for name, value in assignments_of(command):
                self.judge_variable(name, value)

    def judge(self, command: Command) -> None:
        for assignment in command.assignments:
            self.judge_words(assignment.items)
            self.judge_text(assignment)
        program = next((word.text for word in command.words if word.text not in KEYWORDS), None)
        if program not in SHOWS:
            self.judge_words(command.words)

    def judge_text(self, assignment: Assignment) -> None:
        """`ARGS="--bf16 True --out $OUT"`: a string that begins with a flag is made of arguments."""
        inside = assignment.value.inside
        if inside and self.data[slice(*inside)].lstrip(b" \t\r\n\\").startswith(b"-"):
            self.judge_inner(inside)

    def judge_inner(self, inside: tuple[int, int]) -> None:
        try:
            for command in scan_shell(self.data, *inside).commands:
                self.judge(command)
        except Unparsable:
            return

    def judge_words(self, words: Sequence[Word]) -> None:
        for at, word in enumerate(words[:-1]):
            if RUNS_TEXT.fullmatch(word.text or "") and any(w.text in SHELLS for w in words[:at]):
                inside = words[at + 1].inside
                if inside:
                    self.judge_inner(inside)
        given = tuple(options_of(words))
        flash_goes = [self.judge_option(each, given) for each in given]
        for each in given:
            if any(flash_goes) and each.value and NEEDS_FLASH.fullmatch(each.name) and is_true(each.value.text or ""):
                self.replace(each.value, as_false(each.value.text or ""), WHY_PACKING)

    def judge_option(self, each: Given, given: Sequence[Given]) -> bool:
        """The option's edits; True where FlashAttention was chosen and is chosen no more."""
        value = each.value.text if each.value else None
        if LIKE_BF16.fullmatch(each.name):
            self.judge_bf16(each, given)
        elif IS_TF32.fullmatch(each.name):
            self.judge_tf32(each)
        elif NO_FLASH_SWITCH.fullmatch(each.name):
            return self.judge_no_flash(each)
        elif ATTENTION.fullmatch(each.name) or FLASH_SWITCH.fullmatch(each.name):
            return self.judge_attention(each)
        elif each.value and value is not None:
            self.judge_value(each, each.value, value)
        elif each.value and MEANS_PRECISION.fullmatch(each.name):
            self.follow(each.value)
        return False

    def judge_value(self, each: Given, piece: Piece, value: str) -> None:
        if value in NO_TWIN and MEANS_PRECISION.fullmatch(each.name):
            self.found.tell(piece.start, NO_TWIN_WORDS, f"{each.name}=16-mixed")
        twin = twin_of(each.name, value)
        if twin is not None:
            self.replace(piece, twin, WHY_BF16 if twin in TWINS.values() or twin == "16" else WHY_REDUCE)

    def judge_bf16(self, each: Given, given: Sequence[Given]) -> None:
        value = each.value.text if each.value else "True"
        if value is not None and not is_true(value) and value not in ("auto", "full"):
            return
        twin = next((other for other in given if other.name == fp16_name(each.name)), None)
        if twin is None and not IS_BF16.fullmatch(each.name):
            self.found.tell(
                each.flag.start, f"{each.flag.raw} asks for bfloat16; what would ask for float16 is not known"
            )
        elif twin is None:
            self.replace(each.flag, fp16_name(each.flag.raw), WHY_BF16)
            if each.value and value in ("auto", "full"):
                self.replace(each.value, "true", WHY_BF16)
        elif each.value and twin.value and value is not None and twin.value.text is not None:
            self.replace(each.value, as_false(value), WHY_BF16)
            if not is_true(twin.value.text):
                self.replace(twin.value, as_true(twin.value.text), WHY_BF16)
        else:
            self.found.tell(
                each.flag.start, "both --bf16 and --fp16 are given; which one counts is not known", "keep --fp16"
            )

    def judge_tf32(self, each: Given) -> None:
        if each.value is None:
            message = "--tf32 needs a card of compute capability 8.0; Trainer refuses it on this one"
            self.found.tell(each.flag.start, message, "--tf32 False")
        elif each.value.text and is_true(each.value.text):
            self.replace(each.value, as_false(each.value.text), WHY_TF32)

    def judge_no_flash(self, each: Given) -> bool:
        """`--disable_flash_attn2 False`, which is yes said twice."""
        if each.value is None or not is_false(each.value.text or ""):
            return False
        self.replace(each.value, as_true(each.value.text or ""), WHY_FLASH)
        return True

    def judge_attention(self, each: Given) -> bool:
        value = each.value.text if each.value else None
        if each.value and value and FLASH_VALUE.fullmatch(value):
            self.replace(each.value, "sdpa", WHY_FLASH)
            return True
        if not FLASH_SWITCH.fullmatch(each.name):
            return False
        if each.value and value and is_true(value):
            self.replace(each.value, as_false(value), WHY_FLASH)
            return True
        if each.value is None:
            self.found.tell(
                each.flag.start, f"{each.flag.raw} asks for FlashAttention, which does not run on this card"
            )
        return False

    def follow(self, piece: Piece) -> None:
        """The value is a variable: its default is edited here, what it is assigned is edited there."""
        found = VARIABLE.fullmatch(piece.raw)
        if found is None:
            return
        self.linked.add(found[1] or found[3] or found[4])
        self.judge_default(piece, found)

    def judge_default(self, piece: Piece, found: re.Match[str]) -> None:
        default = found[2]
        if default in TWINS:
            start = piece.start + found.start(2)
            self.replace(Piece(start, start + len(default), default, default), TWINS[default], WHY_BF16)

    def judge_variable(self, name: str, value: Piece) -> None:
        known = name in PRECISION_VARIABLES or name in self.linked
        found = VARIABLE.fullmatch(value.raw)
        if known and found:
            self.judge_default(value, found)
        elif value.text in NO_TWIN and known:
            self.found.tell(value.start, NO_TWIN_WORDS)
        elif value.text in TWINS and known:
            self.replace(value, TWINS[value.text or ""], WHY_BF16)
        elif value.text in TWINS and MEANS_PRECISION.fullmatch(name):
            self.found.tell(
                value.start, f"{name} is {value.text}, and nothing here says what it is for", f"{name}=fp16"
            )


def options_of(words: Sequence[Word]) -> Iterator[Given]:
    """Flags with the word after them where that is their value; `--name=value`; Hydra's `name=value`."""
    for at, word in enumerate(words):
        body = word.body or word.inside
        if body is None and not word.raw.startswith("-"):
            continue
        start, end = body or (word.start, word.end)
        raw = word.raw[start - word.start : end - word.start]
        found = OVERRIDE.fullmatch(raw)
        if found and (found[1] or not found[2].isupper()):
            yield _override(start, end, raw, word.text, found)
        elif FLAG.fullmatch(raw):
            flag = Piece(start, end, raw, raw)
            value = words[at + 1] if at + 1 < len(words) and not words[at + 1].raw.startswith("-") else None
            yield Given(option(raw), flag, piece_of(value) if value and _takes(raw, value) else None)


def _takes(flag: str, value: Word) -> bool:
    """A switch takes the next word only where that is a truth value or an expansion; other options take any word."""
    name = option(flag)
    if not any(switch.fullmatch(name) for switch in SWITCHES):
        return True
    text = (value.text or "").lower()
    truths = ("true", "false", "yes", "no", "on", "off", "0", "1", "auto", "full")
    return value.text is None or text in truths or bool(FLASH_VALUE.fullmatch(text))


def _override(start: int, end: int, raw: str, text: str | None, found: re.Match[str]) -> Given:
    quote, inner = unquoted(found[3])
    exact = inner if text is not None and text.endswith(f"={inner}") else None
    flag = Piece(start, start + found.end(2), found[1] + found[2], raw[: found.end(2)])
    return Given(option(found[2]), flag, Piece(start + found.start(3) + quote, end - quote, exact, inner))


def unquoted(value: str) -> tuple[int, str]:
    """The length of the quotes around a whole value, and what is between them."""
    quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    return (1, value[1:-1]) if quoted else (0, value)


def piece_of(word: Word) -> Piece:
    """A word as a value: what lies between its quotes, where they are around all of it."""
    start, end = word.body or word.inside or (word.start, word.end)
    return Piece(start, end, word.text if word.body else None, word.raw[start - word.start : end - word.start])


def assignments_of(command: Command) -> Iterator[tuple[str, Piece]]:
    """What a command sets: by assignment, `export NAME=value`, `env NAME=value`, `-e NAME=value`."""
    for assignment in command.assignments:
        if not assignment.items or assignment.value.text is not None:
            yield assignment.name, piece_of(assignment.value)
    for word in command.words:
        body = word.body or word.inside or (word.start, word.end)
        raw = word.raw[body[0] - word.start : body[1] - word.start]
        for found in re.finditer(r"(?:^|,)([A-Za-z_]\w*)=((?:[^,\"'\s]|\"[^\"]*\"|'[^']*')*)", raw):
            quote, inner = unquoted(found[2])
            start = body[0] + found.start(2) + quote
            exact = inner if not set(inner) & set("$`\\") else None
            yield found[1], Piece(start, start + len(inner), exact, inner)
