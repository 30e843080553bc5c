"""The edits of one file of settings: precision words, switches, and DeepSpeed's blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.edit_list import EditList
from fixers.settings.precision_words import (
    ATTENTION,
    FLASH_SWITCH,
    FLASH_VALUE,
    FULL,
    IS_BF16,
    IS_TF32,
    LIKE_BF16,
    MEANS_PRECISION,
    NEEDS_FLASH,
    NO_FLASH_SWITCH,
    NO_TWIN,
    NO_TWIN_WORDS,
    TWINS,
    WHY_FLASH,
    WHY_PACKING,
    WHY_RANGE,
    WHY_TF32,
    as_false,
    as_true,
    fp16_name,
    is_false,
    is_true,
    option,
    twin_of,
)
from fixers.sources.nodes import Mapping, Node, Scalar, Sequence
from fixers.sources.splice import newline_of

FP16_BLOCK = (
    ("loss_scale", "0"),
    ("loss_scale_window", "1000"),
    ("initial_scale_power", "16"),
    ("hysteresis", "2"),
    ("min_loss_scale", "1"),
)
"""What DeepSpeed needs for a dynamic loss scale: 0 means dynamic, 16 starts it at 65536."""
INTERPOLATED = re.compile(r"\$\{[^{}]*[,:-]\s*(?:bf16|bfloat16)[^{}]*\}")
BLOCKS = ("bf16", "bfloat16")
"""DeepSpeed reads its block under the older name too."""
WHY_BLOCK = "float16 needs a loss scale"


@dataclass
class Settings:
    """The settings of one file, read once; `found` is what comes of them."""

    found: EditList
    entered: set[int] = field(default_factory=set)

    @property
    def data(self) -> bytes:
        return self.found.data

    def tell(self, node: Node, message: str, hint: str = "") -> None:
        self.found.tell(node.place.start, message, hint)

    def replace(self, node: Scalar, text: str, why: str) -> None:
        """The scalar says `text`, in the quotes it had. One that is not written as it is meant is told instead."""
        expected = self.data[node.place.start : node.place.end]
        if node.style not in ("", "'", '"') or expected != f"{node.style}{node.text}{node.style}".encode():
            self.tell(node, f"{node.text.strip()[:40]!r} is written so that it cannot be edited in place ({why})")
        elif node.text != text:
            new = f"{node.style}{text}{node.style}".encode() if expected else b" " + text.encode()
            self.found.put(node.place.start, node.place.end, new, why)

    def read(self, node: Node, ours: bool = False, within: str = "") -> None:
        """Every mapping below judged; what several aliases share once."""
        if isinstance(node, Scalar) or id(node) in self.entered:
            return
        self.entered.add(id(node))
        if ours and isinstance(node, Mapping):
            self.entered |= {
                id(value) for key, value in node.entries if isinstance(key, Scalar) and key.text == "fixers"
            }
        if isinstance(node, Sequence):
            for item in node.items:
                self.read(item, within=within)
            return
        flash_goes = [self.judge(node, key, value, ours, within) for key, value in node.entries]
        if any(flash_goes):
            self.judge_packing(node)
        for key, value in node.entries:
            self.read(value, within=f"{within}.{option(key.text)}" if isinstance(key, Scalar) else within)

    def judge(self, siblings: Mapping, key: Node, value: Node, ours: bool, within: str) -> bool:
        """The edits of one pair; True where FlashAttention was chosen and is chosen no more."""
        if not isinstance(key, Scalar):
            return False
        name = option(key.text)
        if isinstance(value, Mapping):
            if name in BLOCKS:
                self.judge_block(siblings, value)
        elif isinstance(value, Scalar):
            if LIKE_BF16.fullmatch(name):
                self.judge_switch(siblings, key, value)
            elif IS_TF32.fullmatch(name):
                if is_true(value.text):
                    self.replace(value, as_false(value.text), WHY_TF32)
            elif NO_FLASH_SWITCH.fullmatch(name):
                return self.judge_no_flash(value)
            elif ATTENTION.fullmatch(name) or FLASH_SWITCH.fullmatch(name):
                return self.judge_attention(name, value)
            elif not (ours and name == "precision"):
                self.judge_word(within, name, value)
        return False

    def judge_word(self, within: str, name: str, value: Scalar) -> None:
        """`precision: bf16`, and `precision: {training: bf16}`; a table from one dtype to another is none of these."""
        parent = within.rpartition(".")[2]
        if MEANS_PRECISION.fullmatch(parent) and name not in TWINS and not MEANS_PRECISION.fullmatch(name):
            name = parent
        name = f"trainer.{name}" if ".trainer" in within else name
        if value.text in NO_TWIN and MEANS_PRECISION.fullmatch(name):
            self.tell(value, NO_TWIN_WORDS, "precision: 16-mixed")
        if MEANS_PRECISION.fullmatch(name) and INTERPOLATED.fullmatch(value.text):
            self.tell(value, f"{value.text} falls back to bfloat16, which this card has not")
        twin = twin_of(name, value.text)
        if twin is not None:
            self.replace(value, twin, WHY_RANGE if twin in FULL.values() else NO_BFLOAT16)

    def judge_switch(self, siblings: Mapping, key: Scalar, value: Scalar) -> None:
        if not is_true(value.text) and value.text not in ("auto", "full"):
            return
        wanted = fp16_name(key.text)
        twin = siblings.get(wanted)
        rivals = (k for k, v in siblings.entries if isinstance(k, Scalar) and isinstance(v, Scalar) and is_true(v.text))
        if isinstance(twin, Scalar):
            self.replace(value, as_false(value.text), NO_BFLOAT16)
            if not is_true(twin.text):
                self.replace(twin, as_true(twin.text), NO_BFLOAT16)
        elif twin is not None:
            self.tell(key, f"{wanted} stands beside {key.text} and is no plain value; left as it was")
        elif not IS_BF16.fullmatch(option(key.text)):
            self.tell(key, f"{key.text} asks for bfloat16; what would ask for float16 is not known")
        elif key.text != wanted.replace("fp16", "bf16") and any(
            fp16_name(k.text) == wanted for k in rivals if k != key
        ):
            self.replace(value, as_false(value.text), NO_BFLOAT16)
        else:
            self.replace(key, wanted, NO_BFLOAT16)
            if not is_true(value.text):
                self.replace(value, "true", NO_BFLOAT16)

    def judge_no_flash(self, value: Scalar) -> bool:
        """`disable_flash_attn: false`, which is yes said twice."""
        if not is_false(value.text):
            return False
        self.replace(value, as_true(value.text), WHY_FLASH)
        return True

    def judge_attention(self, name: str, value: Scalar) -> bool:
        if FLASH_VALUE.fullmatch(value.text):
            self.replace(value, "sdpa", WHY_FLASH)
            return True
        if FLASH_SWITCH.fullmatch(name) and is_true(value.text):
            self.replace(value, as_false(value.text), WHY_FLASH)
            return True
        return False

    def judge_packing(self, siblings: Mapping) -> None:
        for key, value in siblings.entries:
            named = isinstance(key, Scalar) and NEEDS_FLASH.fullmatch(option(key.text))
            if named and isinstance(value, Scalar) and is_true(value.text):
                self.replace(value, as_false(value.text), WHY_PACKING)

    def judge_block(self, siblings: Mapping, block: Mapping) -> None:
        """DeepSpeed's `"bf16": {"enabled": ...}`, with the fp16 block beside it, or a new one."""
        enabled = block.get("enabled")
        other = siblings.get("fp16")
        if not isinstance(enabled, Scalar) or not (is_true(enabled.text) or enabled.text == "auto"):
            return
        if other is None:
            self._insert_block(siblings, enabled.text == "auto")
        elif isinstance(other, Mapping):
            twin = other.get("enabled")
            if enabled.text == "auto" and isinstance(twin, Scalar) and (twin.text == "auto" or is_true(twin.text)):
                return
            if isinstance(twin, Scalar) and not is_true(twin.text):
                self._set(twin, "true")
        self._set(enabled, "false")

    def _set(self, node: Scalar, text: str) -> None:
        """A truth value without the quotes that "auto" had."""
        self.found.put(node.place.start, node.place.end, text.encode(), NO_BFLOAT16)

    def _insert_block(self, siblings: Mapping, auto: bool) -> None:
        """An fp16 block behind the bf16 one, laid out as that is."""
        key, value = next((k, v) for k, v in siblings.entries if isinstance(k, Scalar) and k.text in BLOCKS)
        assert isinstance(key, Scalar) and isinstance(value, Mapping)
        quote = key.style
        enabled = '"auto"' if auto else "true"
        rows = [f"{quote}{name}{quote}: {text}" for name, text in (("enabled", enabled), *FP16_BLOCK)]
        line_start = self.data.rfind(b"\n", 0, key.place.start) + 1
        indent = self.data[line_start : key.place.start].decode("latin-1")
        newline = newline_of(self.data).decode("latin-1")
        alone = not indent.strip()
        inner = value.entries[0][0].place.start
        inner_indent = self.data[self.data.rfind(b"\n", 0, inner) + 1 : inner].decode("latin-1")
        spread = alone and not inner_indent.strip() and b"\n" in self.data[key.place.start : inner]
        if value.flow and spread:
            body = "{" + newline + ("," + newline).join(inner_indent + row for row in rows) + newline + indent + "}"
        elif value.flow:
            body = "{" + ", ".join(rows) + "}"
        else:
            body = "".join(newline + inner_indent + row for row in rows)
        lead = ("," if siblings.flow else "") + (newline + indent if alone else " ")
        text = f"{lead}{quote}fp16{quote}:{' ' if value.flow else ''}{body}"
        at = value.place.end if value.flow else self._line_end(value.place.end)
        self.found.put(at, at, text.encode("latin-1"), WHY_BLOCK)

    def _line_end(self, at: int) -> int:
        """Where the line ends, behind a comment."""
        end = self.data.find(b"\n", at)
        return at + len(self.data[at : end if end >= 0 else len(self.data)].rstrip(b"\r"))
