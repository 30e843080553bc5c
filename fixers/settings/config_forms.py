"""Edits of one YAML, JSON, TOML or INI file: precision values, boolean switches, and DeepSpeed's bf16 block."""

from __future__ import annotations

import re

from fixers.frame.code_facts import CodeFacts
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.edit_list import EditList
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
    NEEDS_RANGE,
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
    option,
    renamed,
)
from fixers.settings.refusals import refusal_of
from fixers.sources.nodes import TABLE, Mapping, Node, Scalar, Sequence
from fixers.sources.readers.consumers import BF16Value, Spelling
from fixers.sources.readers.reader import Float16WhenOff, option_name
from fixers.sources.splice import newline_of
from remote.protocol.dataclass import dataclass, field

FP16_BLOCK = (
    ("loss_scale", "0"),
    ("loss_scale_window", "1000"),
    ("initial_scale_power", "16"),
    ("hysteresis", "2"),
    ("min_loss_scale", "1"),
)
"""DeepSpeed's settings for a dynamic loss scale. `loss_scale` 0 means dynamic; the scale starts at 2**16."""
INTERPOLATED = re.compile(r"\$\{[^{}]*[,:-]\s*(?:bf16|bfloat16)[^{}]*\}")
TAGGED = re.compile(r"\bname:torch\.bfloat16$")
BFLOAT16 = b"torch.bfloat16"
BLOCKS = ("bf16", "bfloat16")
"""The names that DeepSpeed accepts for its bf16 block."""
WHY_BLOCK = "float16 needs a loss scale"


@dataclass
class Settings:
    """The settings of one file. `edit_list` collects the edits and findings.

    `code_facts`: a key that the project's code reads keeps its name, because that code selects float16 itself.
    `visited`: ids of the nodes judged so far.
    """

    edit_list: EditList
    code_facts: CodeFacts = field(default_factory=CodeFacts)
    visited: set[int] = field(default_factory=set)

    @property
    def data(self) -> bytes:
        return self.edit_list.data

    def warn(self, node: Node, message: str, hint: str = "") -> None:
        self.edit_list.warn(node.span.start, message, hint)

    def replace(self, node: Scalar, text: str, why: str) -> None:
        """Set the scalar to `text` and keep its quotes, or warn if its source text differs from its value."""
        expected = self.data[node.span.start : node.span.end]
        if node.style not in ("", "'", '"') or expected != f"{node.style}{node.text}{node.style}".encode():
            self.warn(node, f"{node.text.strip()[:40]!r} cannot be edited in place ({why})")
        elif node.text != text:
            new = f"{node.style}{text}{node.style}".encode() if expected else b" " + text.encode()
            self.edit_list.put(node.span.start, node.span.end, new, why)

    def read(self, node: Node, is_run_config: bool = False, within: str = "") -> None:
        """Judge every mapping below the node. Shared nodes (aliases) are judged once.

        `is_run_config`: the node is the root of a halfstep config; `precision` is kept. `within`: the node's path.
        """
        if isinstance(node, Scalar) or id(node) in self.visited:
            return
        self.visited.add(id(node))
        if is_run_config and isinstance(node, Mapping):
            self.visited |= {
                id(value) for key, value in node.entries if isinstance(key, Scalar) and key.text == "fixers"
            }
        if isinstance(node, Sequence):
            for item in node.items:
                self.read(item, within=within)
            return
        removed_flash = [self.judge(node, key, value, is_run_config, within) for key, value in node.entries]
        if any(removed_flash):
            self.judge_packing(node)
        for key, value in node.entries:
            self.read(value, within=f"{within}.{option(key.text)}" if isinstance(key, Scalar) else within)

    def judge(self, siblings: Mapping, key: Node, value: Node, is_run_config: bool, within: str) -> bool:
        """Add the edits for one key and value. Returns True if an edit removes FlashAttention."""
        if not isinstance(key, Scalar):
            return False
        name = option(key.text)
        if isinstance(value, Mapping):
            if name in BLOCKS:
                self.judge_block(siblings, value)
        elif isinstance(value, Scalar) and TAGGED.search(value.tag):
            self.judge_tag(name, value)
        elif isinstance(value, Scalar):
            if LIKE_BF16.fullmatch(name):
                self.judge_switch(siblings, key, value, within)
            elif IS_TF32.fullmatch(name):
                if is_true(value.text):
                    self.replace(value, as_false(value.text), WHY_TF32)
            elif NO_FLASH_SWITCH.fullmatch(name):
                return self.judge_no_flash(value)
            elif ATTENTION.fullmatch(name) or FLASH_SWITCH.fullmatch(name):
                return self.judge_attention(name, value)
            elif not (is_run_config and name == "precision"):
                self.judge_word(within, name, value)
        return False

    def judge_tag(self, name: str, value: Scalar) -> None:
        """Replace the dtype in a tag such as `!name:torch.bfloat16` or `!!python/name:torch.bfloat16`."""
        to_float32 = NEEDS_RANGE.fullmatch(name) is not None
        at = self.data.rfind(BFLOAT16, 0, value.span.start)
        if at >= 0 and not self.data[at + len(BFLOAT16) : value.span.start].strip():
            wanted = b"torch.float32" if to_float32 else b"torch.float16"
            self.edit_list.put(at, at + len(BFLOAT16), wanted, WHY_RANGE if to_float32 else NO_BFLOAT16)

    def judge_word(self, within: str, name: str, value: Scalar) -> None:
        """Replace `precision: bf16` and `precision: {training: bf16}`, and keep tables that map dtypes to dtypes."""
        parent = within.rpartition(".")[2]
        if MEANS_PRECISION.fullmatch(parent) and name not in COUNTERPARTS and not MEANS_PRECISION.fullmatch(name):
            name = parent
        name = f"trainer.{name}" if ".trainer" in within else name
        if value.text in NO_COUNTERPART and MEANS_PRECISION.fullmatch(name):
            self.edit_list.refuse(value.span.start, NO_COUNTERPART_WORDS, "precision: 16-mixed")
        if MEANS_PRECISION.fullmatch(name) and INTERPOLATED.fullmatch(value.text):
            self.warn(value, f"{value.text} has bfloat16 as its default, and this card has no bfloat16")
        counterpart = counterpart_of(name, value.text)
        if counterpart is None:
            return
        to_float32 = counterpart in FULL.values()
        selected = BF16Value(
            option_name(name), value.text, self.edit_list.path, to_float32=to_float32, plain=not value.style
        )
        spelling = self.code_facts.consumers.resolve(selected, counterpart)
        if spelling.refused_by is not None:
            self.warn(value, *refusal_of(value.text, spelling.refused_by, counterpart))
        else:
            self.replace(value, spelling.word, WHY_RANGE if to_float32 else NO_BFLOAT16)

    def judge_switch(self, siblings: Mapping, key: Scalar, value: Scalar, within: str) -> None:
        if not is_true(value.text) and value.text not in ("auto", "full"):
            return
        wanted = fp16_name(key.text)
        counterpart = siblings.get(wanted)
        if isinstance(counterpart, Scalar):
            self.replace(value, as_false(value.text), NO_BFLOAT16)
            if not is_true(counterpart.text):
                self.replace(counterpart, as_true(counterpart.text), NO_BFLOAT16)
        elif counterpart is not None:
            self.warn(key, f"{wanted} is set beside {key.text}, and its value is not a scalar; left unchanged")
        else:
            spelling = self.resolve_key(key, within)
            if isinstance(spelling.refused_by, Float16WhenOff):
                self.replace(value, as_false(value.text), NO_BFLOAT16)
                return
            if key.text not in self.code_facts.keys or (spelling.declared and spelling.refused_by is None):
                self.rename_switch(siblings, key, value, spelling)

    def resolve_key(self, key: Scalar, within: str) -> Spelling:
        """Return the name of the float16 switch that the project's classes declare for this bfloat16 switch."""
        name, default = option_name(key.text), option_name(fp16_name(key.text))
        return self.code_facts.resolve_switch(name, default, f"{within}.{key.text}")

    def rename_switch(self, siblings: Mapping, key: Scalar, value: Scalar, spelling: Spelling) -> None:
        """Rename the key to its float16 name, or set it to false if another enabled switch has the new name."""
        wanted = renamed(key.text, spelling.word)
        if spelling.refused_by is not None:
            self.warn(key, *refusal_of(key.text, spelling.refused_by, spelling.word))
        elif not spelling.declared and not IS_BF16.fullmatch(option(key.text)):
            self.warn(key, f"{key.text} selects bfloat16; which key selects float16 is unknown")
        elif key.text != wanted.replace("fp16", "bf16") and _is_name_taken(siblings, key, wanted):
            self.replace(value, as_false(value.text), NO_BFLOAT16)
        else:
            self.replace(key, wanted, NO_BFLOAT16)
            if not is_true(value.text):
                self._set(value, "true") if siblings.tag == TABLE else self.replace(value, "true", NO_BFLOAT16)

    def judge_no_flash(self, value: Scalar) -> bool:
        """Set `disable_flash_attn: false` to true."""
        if not is_false(value.text):
            return False
        self.replace(value, as_true(value.text), WHY_FLASH)
        return True

    def judge_attention(self, name: str, value: Scalar) -> bool:
        named = FLASH_VALUE.fullmatch(value.text) is not None
        switch = FLASH_SWITCH.fullmatch(name) and is_true(value.text) and not self.code_facts.traits.flash_is_sdpa
        if not (named or switch) or (not named and self.code_facts.traits.is_settled(name)):
            return False
        traits = self.code_facts.traits
        broken = traits.broken_without_flash(self.edit_list.path, "" if named else name)
        if broken is not None:
            self.warn(value, broken.message)
            return False
        self.replace(value, traits.other_attention if named else as_false(value.text), WHY_FLASH)
        return True

    def judge_packing(self, siblings: Mapping) -> None:
        for key, value in siblings.entries:
            named = isinstance(key, Scalar) and NEEDS_FLASH.fullmatch(option(key.text))
            if named and isinstance(value, Scalar) and is_true(value.text):
                self.replace(value, as_false(value.text), WHY_PACKING)

    def judge_block(self, siblings: Mapping, block: Mapping) -> None:
        """Disable DeepSpeed's `"bf16": {"enabled": ...}`, and enable the fp16 block or insert one.

        A bf16 block with "auto" is not changed, and the inserted block gets "auto" too: Trainer sets both blocks.
        """
        enabled = block.get("enabled")
        other = siblings.get("fp16")
        if not isinstance(enabled, Scalar) or not _is_on(enabled):
            return
        if other is None and siblings.tag == TABLE:
            self.warn(enabled, "the bf16 block is enabled, and there is no fp16 block", "add an fp16 block")
            return
        if other is None:
            self._insert_block(siblings, enabled.text == "auto")
        elif isinstance(other, Mapping):
            counterpart = other.get("enabled")
            if enabled.text == "auto" and _is_on(counterpart):
                return
            if isinstance(counterpart, Scalar) and not is_true(counterpart.text):
                self._set(counterpart, "true")
        if other is not None or enabled.text != "auto":
            self._set(enabled, "false")

    def _set(self, node: Scalar, text: str) -> None:
        """Set the scalar to a boolean without quotes."""
        self.edit_list.put(node.span.start, node.span.end, text.encode(), NO_BFLOAT16)

    def _insert_block(self, siblings: Mapping, auto: bool) -> None:
        """Insert an fp16 block after the bf16 block, in the same layout."""
        key, value = next((k, v) for k, v in siblings.entries if isinstance(k, Scalar) and k.text in BLOCKS)
        assert isinstance(key, Scalar) and isinstance(value, Mapping)
        newline = newline_of(self.data).decode("latin-1")
        indent = self._before_on_line(key.span.start)
        own_line = not indent.strip()
        lead = ("," if siblings.flow else "") + (newline + indent if own_line else " ")
        body = self._block_body(key, value, auto)
        text = f"{lead}{key.style}fp16{key.style}:{' ' if value.flow else ''}{body}"
        at = value.span.end if value.flow else self._line_end(value.span.end)
        self.edit_list.put(at, at, text.encode("latin-1"), WHY_BLOCK)

    def _block_body(self, key: Scalar, value: Mapping, auto: bool) -> str:
        enabled = '"auto"' if auto else "true"
        rows = [f"{key.style}{name}{key.style}: {text}" for name, text in (("enabled", enabled), *FP16_BLOCK)]
        newline = newline_of(self.data).decode("latin-1")
        indent = self._before_on_line(key.span.start)
        inner = value.entries[0][0].span.start
        inner_indent = self._before_on_line(inner)
        if not value.flow:
            return "".join(newline + inner_indent + row for row in rows)
        if indent.strip() or inner_indent.strip() or b"\n" not in self.data[key.span.start : inner]:
            return "{" + ", ".join(rows) + "}"
        return "{" + newline + ("," + newline).join(inner_indent + row for row in rows) + newline + indent + "}"

    def _before_on_line(self, at: int) -> str:
        """Return the text between the start of the line and the offset `at`."""
        return self.data[self.data.rfind(b"\n", 0, at) + 1 : at].decode("latin-1")

    def _line_end(self, at: int) -> int:
        """Return the position of the end of the line, after any comment."""
        end = self.data.find(b"\n", at)
        return at + len(self.data[at : end if end >= 0 else len(self.data)].rstrip(b"\r"))


def _is_name_taken(siblings: Mapping, key: Scalar, wanted: str) -> bool:
    """Return True if another enabled key of the mapping has this float16 name."""
    pairs = ((k, v) for k, v in siblings.entries if isinstance(k, Scalar) and isinstance(v, Scalar) and k != key)
    return any(is_true(value.text) and fp16_name(other.text) == wanted for other, value in pairs)


def _is_on(value: object) -> bool:
    return isinstance(value, Scalar) and (value.text == "auto" or is_true(value.text))
