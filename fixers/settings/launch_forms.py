"""The edits of one file of commands: flags, their values and assignments, and warnings about ambiguous cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fixers.frame.own_settings import OwnSettings
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.edit_list import EditList
from fixers.settings.launch_options import CommandOption, TextRange, assignments_of, options_of
from fixers.settings.precision_words import (
    ATTENTION,
    COUNTERPARTS,
    FLASH_SWITCH,
    FLASH_VALUE,
    FULL,
    IS_BF16,
    IS_TF32,
    LIKE_BF16,
    MEANS_PRECISION,
    NEEDS_FLASH,
    NO_COUNTERPART,
    NO_COUNTERPART_WORDS,
    NO_FLASH_SWITCH,
    WHY_FLASH,
    WHY_PACKING,
    WHY_RANGE,
    WHY_TF32,
    as_false,
    as_true,
    counterpart_of,
    fp16_name,
    is_false,
    is_true,
    renamed,
)
from fixers.settings.refusals import refusal_of
from fixers.settings.text_arguments import COMPARES, default_in, holds_arguments, is_compared, text_of
from fixers.sources.readers.consumers import BF16Value
from fixers.sources.readers.reader import option_name
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Assignment, Command, Script, Word

SHOWS = {"echo", "printf", "grep", "egrep", "rg", "test", "[", "[[", "git", "pip", "conda", "sed", "awk", "case"}
KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "sudo", "exec"}
SHELLS = {"sh", "bash", "zsh", "dash", "ksh", "/bin/sh", "/bin/bash", "/usr/bin/bash"}
RUNS_TEXT = re.compile(r"-[a-z]*c")
BUILDS = re.compile(r"(?:install|build|with|skip)_")
PRECISION_VARIABLES = ("ACCELERATE_MIXED_PRECISION",)
VARIABLE = re.compile(r"\"?\$(?:\{(\w+)(?::?-([^}\"$`]*))?\}|\((\w+)\)|(\w+))\"?")


@dataclass
class Launch:
    """The commands of one file; `found` collects the edits, `linked` the variables used as values of precision
    options, with the option.

    `own`: what the project's own code reads; an override of one of its keys (`bf16=true`) keeps its name.
    `program`: the script that the command at hand starts, if it is known; options before `launcher_end` are those of
    accelerate. `attending`: variables used as values of attention options. `compares`: it is also run without them.
    """

    found: EditList
    own: OwnSettings = field(default_factory=OwnSettings)
    program: str = ""
    launcher_end: int = 0
    linked: dict[str, str] = field(default_factory=dict)
    attending: set[str] = field(default_factory=set)
    compares: bool = False

    @property
    def data(self) -> bytes:
        return self.found.data

    def replace(self, piece: TextRange, text: str, why: str) -> None:
        if self.data[piece.start : piece.end] != text.encode():
            self.found.put(piece.start, piece.end, text.encode(), why)

    def replace_flash(self, piece: TextRange, text: str, switch: str = "") -> bool:
        """Turn FlashAttention off, and return True; if code of the project fails without it, warn instead."""
        broken = self.own.traits.broken_without_flash(self.found.path, switch)
        if broken is not None or self.compares:
            self.found.warn(piece.start, broken.message if broken else COMPARES)
            return False
        self.replace(piece, text, WHY_FLASH)
        return True

    def read(self, script: Script) -> None:
        """Judge every command, then the variables used as values of precision options."""
        for command in script.commands:
            self.compares = is_compared(command, script.commands)
            self.judge(command)
        for command in script.commands:
            for name, value in assignments_of(command):
                self.judge_variable(name, value)
            self.judge_loop(command.words)

    def judge(self, command: Command) -> None:
        for assignment in command.assignments:
            self.judge_words(assignment.items)
            self.judge_text(assignment)
        program = next((word.text for word in command.words if word.text not in KEYWORDS), None)
        script = next((word for word in command.words if word.text and word.text.endswith(".py")), None)
        self.program = script.text or "" if script else ""
        self.launcher_end = script.start if script and any(word.text == "accelerate" for word in command.words) else 0
        if program not in SHOWS:
            self.judge_words(command.words)
            for word in command.words:
                self.judge_inner_if_arguments(text_of(word))

    def judge_text(self, assignment: Assignment) -> None:
        """Judge `ARGS="--bf16 True --out $OUT"`: a string that begins with a flag contains arguments."""
        self.judge_inner_if_arguments(assignment.value.inside)

    def judge_inner_if_arguments(self, inside: tuple[int, int] | None) -> None:
        if inside and holds_arguments(self.data[slice(*inside)]):
            self.judge_inner(inside)

    def judge_loop(self, words: Sequence[Word]) -> None:
        """Warn about `for p in bf16; do`, because other iterations of the loop may be for other cards."""
        match [word.text for word in words[:3]]:
            case ["for", str(name), "in"] if name in self.linked:
                for word in words[3:]:
                    if word.text in COUNTERPARTS:
                        self.found.warn(word.start, f"the loop sets {name} to {word.text}; {NO_BFLOAT16}")

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

    def judge_option(self, each: CommandOption, given: Sequence[CommandOption]) -> bool:
        """Add the edits for the option. Returns True if the edit removes FlashAttention."""
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
            self.follow(each.name, each.value)
        return False

    def judge_value(self, each: CommandOption, piece: TextRange, value: str) -> None:
        if value in NO_COUNTERPART and MEANS_PRECISION.fullmatch(each.name):
            self.found.refuse(piece.start, NO_COUNTERPART_WORDS, f"{each.name}=16-mixed")
        counterpart = counterpart_of(each.name, value)
        if counterpart is not None:
            wide = counterpart in FULL.values()
            word = self.spelled(each.name, piece, value, counterpart, wide=wide)
            if word is not None:
                self.replace(piece, word, WHY_RANGE if wide else NO_BFLOAT16)

    def spelled(self, name: str, piece: TextRange, value: str, counterpart: str, *, wide: bool = False) -> str | None:
        """Return the word that the project's readers of the option accept; None, with a warning, if one refuses it."""
        if piece.start < self.launcher_end:
            return counterpart
        selected = BF16Value(option_name(name), value, self.found.path, self.program, wide)
        spelling = self.own.consumers.resolve(selected, counterpart)
        if spelling.refused is None:
            return spelling.word
        self.found.warn(piece.start, *refusal_of(value, spelling.refused, counterpart))
        return None

    # complex: each launcher spells the option in its own way
    def judge_bf16(self, each: CommandOption, given: Sequence[CommandOption]) -> None:
        value = each.value.text if each.value else "True"
        if value is not None and not is_true(value) and value not in ("auto", "full"):
            return
        counterpart = next((other for other in given if other.name == fp16_name(each.name)), None)
        if counterpart is None and each.name in self.own.keys and not each.flag.raw.startswith("-"):
            return
        if counterpart is None:
            self.rename_bf16(each)
        elif each.value and counterpart.value and value is not None and counterpart.value.text is not None:
            self.replace(each.value, as_false(value), NO_BFLOAT16)
            if not is_true(counterpart.value.text):
                self.replace(counterpart.value, as_true(counterpart.value.text), NO_BFLOAT16)
        else:
            both = "both --bf16 and --fp16 are given; which one takes precedence is unknown"
            self.found.warn(each.flag.start, both, "keep --fp16")

    def rename_bf16(self, each: CommandOption) -> None:
        name, default = option_name(each.name), option_name(fp16_name(each.name))
        spelling = self.own.resolve_switch(name, default, each.flag.raw)
        if spelling.refused is not None:
            self.found.warn(each.flag.start, *refusal_of(each.flag.raw, spelling.refused, spelling.word))
            return
        if not spelling.declared and not IS_BF16.fullmatch(each.name):
            self.found.warn(each.flag.start, f"{each.flag.raw} selects bfloat16; its float16 counterpart is unknown")
            return
        self.replace(each.flag, renamed(each.flag.raw, spelling.word), NO_BFLOAT16)
        if each.value and each.value.text in ("auto", "full"):
            self.replace(each.value, "true", NO_BFLOAT16)

    def judge_tf32(self, each: CommandOption) -> None:
        if each.value is None:
            words = "--tf32 needs a card of compute capability 8.0; Trainer rejects it on this card"
            self.found.warn(each.flag.start, words, "--tf32 False")
        elif each.value.text and is_true(each.value.text):
            self.replace(each.value, as_false(each.value.text), WHY_TF32)

    def judge_no_flash(self, each: CommandOption) -> bool:
        """Set `--disable_flash_attn2 False` to True."""
        if each.value is None or not is_false(each.value.text or ""):
            return False
        self.replace(each.value, as_true(each.value.text or ""), WHY_FLASH)
        return True

    def judge_attention(self, each: CommandOption) -> bool:
        value = each.value.text if each.value else None
        if each.value and value and FLASH_VALUE.fullmatch(value):
            return self.replace_flash(each.value, "sdpa")
        if not FLASH_SWITCH.fullmatch(each.name):
            self.follow_attention(each.value)
            return False
        if self.own.traits.flash_is_sdpa:
            return False
        if each.value and value and is_true(value):
            return self.replace_flash(each.value, as_false(value), each.name)
        if each.value is None:
            self.found.warn(each.flag.start, f"{each.flag.raw} selects FlashAttention, which does not run on this card")
        return False

    def follow(self, option: str, piece: TextRange) -> None:
        """If the value is a variable, edit its default and record its name, so that its assignments are edited too."""
        if (found := VARIABLE.fullmatch(piece.raw)) is None:
            return
        self.linked[found[1] or found[3] or found[4]] = option
        self.judge_default(option, piece, found)

    def judge_default(self, option: str, piece: TextRange, found: re.Match[str]) -> None:
        if found[2] in COUNTERPARTS:
            self.judge_word(option, default_in(piece, found), found[2])

    def judge_word(self, option: str, piece: TextRange, word: str) -> None:
        """Replace a word that a variable holds for the option."""
        spelled = self.spelled(option, piece, word, COUNTERPARTS[word])
        if spelled is not None:
            self.replace(piece, spelled, NO_BFLOAT16)

    def follow_attention(self, piece: TextRange | None) -> None:
        """If the value of an attention option is a variable, edit its default and record its name."""
        if piece is None or not (found := VARIABLE.fullmatch(piece.raw)):
            return
        self.attending.add(found[1] or found[3] or found[4])
        if found[2] and FLASH_VALUE.fullmatch(found[2]):
            self.replace_flash(default_in(piece, found), "sdpa")

    # complex: one case for each way to select attention
    def judge_attention_variable(self, name: str, value: TextRange) -> None:
        """Edit `ATTN_IMPLEMENTATION=flash_attention_2`, `USE_FLASH_ATTN=1`, and variables of attention options."""
        called, text = name.lower(), value.text or ""
        if BUILDS.match(called):
            return
        chooses = name in self.attending or ATTENTION.fullmatch(called)
        found = VARIABLE.fullmatch(value.raw)
        if found and found[2] and chooses and FLASH_VALUE.fullmatch(found[2]):
            self.replace_flash(default_in(value, found), "sdpa")
        elif (chooses or FLASH_SWITCH.fullmatch(called)) and FLASH_VALUE.fullmatch(text):
            self.replace_flash(value, "sdpa")
        elif FLASH_SWITCH.fullmatch(called) and is_true(text) and not self.own.traits.flash_is_sdpa:
            self.replace_flash(value, as_false(text), called)
        elif NO_FLASH_SWITCH.fullmatch(called) and is_false(text):
            self.replace(value, as_true(text), WHY_FLASH)

    def judge_variable(self, name: str, value: TextRange) -> None:
        self.judge_attention_variable(name, value)
        known = name in PRECISION_VARIABLES or name in self.linked
        found = VARIABLE.fullmatch(value.raw)
        if known and found:
            self.judge_default(self.linked.get(name, name), value, found)
        elif value.text in NO_COUNTERPART and known:
            self.found.refuse(value.start, NO_COUNTERPART_WORDS)
        elif value.text in COUNTERPARTS and known:
            self.judge_word(self.linked.get(name, name), value, value.text or "")
        elif value.text in COUNTERPARTS and MEANS_PRECISION.fullmatch(name):
            self.found.warn(value.start, f"{name} is {value.text}, and its purpose is unknown", f"{name}=fp16")
