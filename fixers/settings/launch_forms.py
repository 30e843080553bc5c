"""Edit flags, their values, and variables in the commands of one file, and report ambiguous cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from fixers.frame.code_facts import CodeFacts
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.edit_list import EditList
from fixers.settings.launch_options import CommandOption, Options, TextRange, assignments_of, options_of, serves_model
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
from fixers.settings.text_arguments import COMPARES, default_in, holds_arguments, is_compared, shell_texts_in, text_of
from fixers.settings.trl_switch import add_switch_to_command
from fixers.sources.readers.consumers import BF16Value
from fixers.sources.readers.reader import option_name
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Script, Word
from remote.protocol.dataclass import dataclass, field

NOT_LAUNCHES = {"echo", "printf", "grep", "egrep", "rg", "test", "[", "[[", "git", "pip", "conda", "sed", "awk", "case"}
KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "sudo", "exec"}
BUILDS = re.compile(r"(?:install|build|with|skip)_")
PRECISION_VARIABLES = ("ACCELERATE_MIXED_PRECISION",)
VARIABLE = re.compile(r"\"?\$(?:\{(\w+)(?::?-([^}\"$`]*))?\}|\((\w+)\)|(\w+))\"?")


@dataclass
class Launch:
    """The commands of one file. `edit_list` collects their edits and findings.

    `code_facts`: an override of a key that the project's code reads (`bf16=true`) keeps its name. `program`: the Python
    script that the current command starts, or "". Options before the offset `launcher_end` belong to accelerate.
    `linked`: variables used as values of precision options, each with the option's name.
    `attention_variables`: variables used as values of attention options. `compares`: the script also runs the current
    command without its FlashAttention option.
    """

    edit_list: EditList
    code_facts: CodeFacts = field(default_factory=CodeFacts)
    program: str = ""
    launcher_end: int = 0
    linked: dict[str, str] = field(default_factory=dict)
    attention_variables: set[str] = field(default_factory=set)
    compares: bool = False

    @property
    def data(self) -> bytes:
        return self.edit_list.data

    def warn(self, piece: TextRange | Word, message: str, hint: str = "") -> None:
        self.edit_list.warn(piece.start, message, hint)

    def replace(self, piece: TextRange, text: str, why: str) -> None:
        if self.data[piece.start : piece.end] != text.encode():
            self.edit_list.put(piece.start, piece.end, text.encode(), why)

    def replace_flash(self, piece: TextRange, text: str, switch: str = "") -> bool:
        """Replace the value and return True, or warn and return False if the project's code needs FlashAttention."""
        broken = self.code_facts.traits.broken_without_flash(self.edit_list.path, switch)
        if broken is not None or self.compares:
            self.warn(piece, broken.message if broken else COMPARES)
            return False
        self.replace(piece, text, WHY_FLASH)
        return True

    def read(self, script: Script) -> None:
        """Add the edits for every command, then for the variables used as values of precision options."""
        commands = [each for each in script.commands if not serves_model(each)]
        for command in commands:
            self.compares = is_compared(command, script.commands)
            self.judge(command)
        for command in commands:
            for name, value in assignments_of(command):
                self.judge_variable(name, value)
            self.judge_loop(command.words)

    def judge(self, command: Command) -> None:
        for assignment in command.assignments:
            self.judge_words(assignment.items)
            self.judge_text_if_arguments(assignment.value.inside)
        program = next((word.text for word in command.words if word.text not in KEYWORDS), None)
        script = next((word for word in command.words if (word.text or "").endswith(".py")), None)
        self.program = (script and script.text) or ""
        self.launcher_end = script.start if script and any(word.text == "accelerate" for word in command.words) else 0
        if program not in NOT_LAUNCHES:
            self.judge_words(command.words)
            for word in command.words:
                self.judge_text_if_arguments(text_of(word))

    def judge_text_if_arguments(self, inside: tuple[int, int] | None) -> None:
        """Judge a string that begins like arguments: `ARGS="--bf16 True --out $OUT"`."""
        if inside and holds_arguments(self.data[slice(*inside)]):
            self.judge_text(inside)

    def judge_loop(self, words: Sequence[Word]) -> None:
        """Warn about `for p in bf16; do` and do not change it: other iterations may be for other cards."""
        match [word.text for word in words[:3]]:
            case ["for", str(name), "in"] if name in self.linked:
                for word in words[3:]:
                    if word.text in COUNTERPARTS:
                        self.warn(word, f"the loop sets {name} to {word.text}; {NO_BFLOAT16}")

    def judge_text(self, inside: tuple[int, int]) -> None:
        with suppress(Unparsable):
            for command in scan_shell(self.data, *inside).commands:
                self.judge(command)

    def judge_words(self, words: Sequence[Word]) -> None:
        for text_range in shell_texts_in(words):
            self.judge_text(text_range)
        options = tuple(options_of(words))
        given = {option.name: option for option in reversed(options)}
        removed_flash = [self.judge_option(option, given) for option in options]
        for option in options if any(removed_flash) else ():
            if option.value and NEEDS_FLASH.fullmatch(option.name) and is_true(option.value.text or ""):
                self.replace(option.value, as_false(option.value.text or ""), WHY_PACKING)

    def judge_option(self, option: CommandOption, given: Options) -> bool:
        """Add the edits for the option. Returns True if the edit removes FlashAttention."""
        value = option.value.text if option.value else None
        if LIKE_BF16.fullmatch(option.name):
            self.judge_bf16(option, given)
        elif IS_TF32.fullmatch(option.name):
            self.judge_tf32(option)
        elif NO_FLASH_SWITCH.fullmatch(option.name):
            return self.judge_no_flash(option)
        elif ATTENTION.fullmatch(option.name) or FLASH_SWITCH.fullmatch(option.name):
            return self.judge_attention(option)
        elif option.value and value is not None:
            self.judge_value(option, option.value, value, given)
        elif option.value and MEANS_PRECISION.fullmatch(option.name):
            self.follow_variable(option.name, option.value)
        return False

    def judge_value(self, option: CommandOption, piece: TextRange, value: str, given: Options) -> None:
        if value in NO_COUNTERPART and MEANS_PRECISION.fullmatch(option.name):
            self.edit_list.refuse(piece.start, NO_COUNTERPART_WORDS, f"{option.name}=16-mixed")
        counterpart = counterpart_of(option.name, value)
        if counterpart is not None:
            to_float32 = counterpart in FULL.values()
            word = self.accepted_value(option.name, piece, value, counterpart, to_float32=to_float32)
            if word is not None:
                self.replace(piece, word, WHY_RANGE if to_float32 else NO_BFLOAT16)
                add_switch_to_command(self.edit_list, option, given, self.program, self.code_facts)

    def accepted_value(
        self, name: str, piece: TextRange, value: str, counterpart: str, *, to_float32: bool = False
    ) -> str | None:
        """Return the value that the project's code accepts for the option. If it accepts none, warn and return None."""
        if piece.start < self.launcher_end:
            return counterpart
        selected = BF16Value(option_name(name), value, self.edit_list.path, self.program, to_float32)
        spelling = self.code_facts.consumers.resolve(selected, counterpart)
        if spelling.refused_by is None:
            return spelling.word
        self.warn(piece, *refusal_of(value, spelling.refused_by, counterpart))
        return None

    # complex: each launcher spells the option differently
    def judge_bf16(self, option: CommandOption, given: Options) -> None:
        value = option.value.text if option.value else "True"
        if value is not None and not is_true(value) and value not in ("auto", "full"):
            return
        counterpart = given.get(fp16_name(option.name))
        if counterpart is None and option.name in self.code_facts.keys and not option.flag.raw.startswith("-"):
            return
        if counterpart is None:
            self.rename_bf16(option)
        elif option.value and counterpart.value and value is not None and counterpart.value.text is not None:
            self.replace(option.value, as_false(value), NO_BFLOAT16)
            if not is_true(counterpart.value.text):
                self.replace(counterpart.value, as_true(counterpart.value.text), NO_BFLOAT16)
        else:
            message = "both --bf16 and --fp16 are given; which one takes precedence is unknown"
            self.warn(option.flag, message, "keep --fp16")

    def rename_bf16(self, option: CommandOption) -> None:
        name, default = option_name(option.name), option_name(fp16_name(option.name))
        spelling = self.code_facts.resolve_switch(name, default, option.flag.raw)
        if spelling.refused_by is not None:
            self.warn(option.flag, *refusal_of(option.flag.raw, spelling.refused_by, spelling.word))
            return
        if not spelling.declared and not IS_BF16.fullmatch(option.name):
            self.warn(option.flag, f"{option.flag.raw} selects bfloat16; its float16 counterpart is unknown")
            return
        self.replace(option.flag, renamed(option.flag.raw, spelling.word), NO_BFLOAT16)
        if option.value and option.value.text in ("auto", "full"):
            self.replace(option.value, "true", NO_BFLOAT16)

    def judge_tf32(self, option: CommandOption) -> None:
        if option.value is None:
            message = "--tf32 needs a card of compute capability 8.0; Trainer rejects it on this card"
            self.warn(option.flag, message, "--tf32 False")
        elif option.value.text and is_true(option.value.text):
            self.replace(option.value, as_false(option.value.text), WHY_TF32)

    def judge_no_flash(self, option: CommandOption) -> bool:
        """Set `--disable_flash_attn2 False` to True."""
        if option.value is None or not is_false(option.value.text or ""):
            return False
        self.replace(option.value, as_true(option.value.text or ""), WHY_FLASH)
        return True

    def judge_attention(self, option: CommandOption) -> bool:
        value = option.value.text if option.value else None
        if option.value and value and FLASH_VALUE.fullmatch(value):
            return self.replace_flash(option.value, self.code_facts.traits.other_attention)
        if not FLASH_SWITCH.fullmatch(option.name):
            self.follow_attention_variable(option.value)
            return False
        if self.code_facts.traits.flash_is_sdpa or self.code_facts.traits.is_settled(option.name):
            return False
        if option.value and value and is_true(value):
            return self.replace_flash(option.value, as_false(value), option.name)
        if option.value is None:
            self.warn(option.flag, f"{option.flag.raw} selects FlashAttention, which does not run on this card")
        return False

    def follow_variable(self, name: str, piece: TextRange) -> None:
        """If the value is a variable, edit its default and record its name: its assignments are edited later."""
        if (match := VARIABLE.fullmatch(piece.raw)) is None:
            return
        self.linked[match[1] or match[3] or match[4]] = name
        self.judge_default(name, piece, match)

    def judge_default(self, name: str, piece: TextRange, match: re.Match[str]) -> None:
        if match[2] in COUNTERPARTS:
            self.judge_word(name, default_in(piece, match), match[2])

    def judge_word(self, name: str, piece: TextRange, word: str) -> None:
        """Replace the bfloat16 value of a variable that is passed to the option."""
        new_value = self.accepted_value(name, piece, word, COUNTERPARTS[word])
        if new_value is not None:
            self.replace(piece, new_value, NO_BFLOAT16)

    def follow_attention_variable(self, piece: TextRange | None) -> None:
        """If the value of an attention option is a variable, edit its default and record its name."""
        if piece is None or not (match := VARIABLE.fullmatch(piece.raw)):
            return
        self.attention_variables.add(match[1] or match[3] or match[4])
        if match[2] and FLASH_VALUE.fullmatch(match[2]):
            self.replace_flash(default_in(piece, match), self.code_facts.traits.other_attention)

    # complex: one case for each way to select attention
    def judge_attention_variable(self, name: str, value: TextRange) -> None:
        """Edit `ATTN_IMPLEMENTATION=flash_attention_2`, `USE_FLASH_ATTN=1`, and variables of attention options."""
        lower_name, text = name.lower(), value.text or ""
        if BUILDS.match(lower_name):
            return
        selects = name in self.attention_variables or ATTENTION.fullmatch(lower_name)
        match = VARIABLE.fullmatch(value.raw)
        if match and match[2] and selects and FLASH_VALUE.fullmatch(match[2]):
            self.replace_flash(default_in(value, match), self.code_facts.traits.other_attention)
        elif (selects or FLASH_SWITCH.fullmatch(lower_name)) and FLASH_VALUE.fullmatch(text):
            self.replace_flash(value, self.code_facts.traits.other_attention)
        elif FLASH_SWITCH.fullmatch(lower_name) and is_true(text) and not self.code_facts.traits.flash_is_sdpa:
            self.replace_flash(value, as_false(text), lower_name)
        elif NO_FLASH_SWITCH.fullmatch(lower_name) and is_false(text):
            self.replace(value, as_true(text), WHY_FLASH)

    def judge_variable(self, name: str, value: TextRange) -> None:
        self.judge_attention_variable(name, value)
        known = name in PRECISION_VARIABLES or name in self.linked
        if known and (match := VARIABLE.fullmatch(value.raw)):
            self.judge_default(self.linked.get(name, name), value, match)
        elif value.text in NO_COUNTERPART and known:
            self.edit_list.refuse(value.start, NO_COUNTERPART_WORDS)
        elif value.text in COUNTERPARTS and known:
            self.judge_word(self.linked.get(name, name), value, value.text or "")
        elif value.text in COUNTERPARTS and MEANS_PRECISION.fullmatch(name):
            self.warn(value, f"{name} is {value.text}, and its purpose is unknown", f"{name}=fp16")
