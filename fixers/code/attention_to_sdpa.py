"""attention-to-sdpa: SDPA replaces FlashAttention, which the card cannot run.

What it does
    On a card below compute capability 8.0, replaces FlashAttention by SDPA where a keyword, key, name, default or flag
    selects it; sets `use_flash_attention_2`, `padding_free` and similar switches to False. Comparisons, lists of
    choices and branches that test the card are left alone. Sequence packing without FlashAttention lets samples attend
    to each other and is reported.

Why
    `FlashAttention only supports Ampere GPUs or newer.` SDPA's memory-efficient kernels run float16 from Maxwell on.

Before
    model = AutoModel.from_pretrained(name, attn_implementation="flash_attention_2")

After
    model = AutoModel.from_pretrained(name, attn_implementation="sdpa")

What it can break
    Nothing that works: FlashAttention kernels do not start on such a card. Remote code that supports only
    FlashAttention and eager attention rejects "sdpa"; use "eager" for such a model.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.bf16_forms.exclusions import Verdict, judge_place
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import is_chosen, rewritten_literal
from fixers.sources.gates import is_gated
from fixers.sources.python import reads_python
from fixers.sources.source import Source
from remote.policy.precision import BF16_FROM

name = "attention-to-sdpa"
version = 2
safety = "safe"
needles = (b"flash_att", b"flash-att", b"padding_free")
below = BF16_FROM
brings: tuple[str, ...] = ()
matches = reads_python

ASKS = re.compile(
    rb"""["']flash_?att(?:ention|n)|kernels-community/"""
    rb"""|\b(?:(?:use[_-])?flash[_-]att(?:ention|n)(?:[_-]2)?|padding[_-]free)["'\]]*[ ]*[=:,]"""
)
CHOOSES_ATTENTION = re.compile(
    r"(?:.*[._-])?_?(?:attn|attention)(?:[_-]?(?:impl|implementation|type|backend|mode))?$", re.IGNORECASE
)
FLASH = re.compile(r"flash_?att(?:ention|n)(?:_[23])?|kernels-community/(?:vllm-)?flash-attn\w*")
SWITCHES = re.compile(r"(?:use[_-])?flash[_-](?:attn|attention)(?:[_-]2)?$|padding[_-]free$")
WHY = "FlashAttention needs compute capability 8.0"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Replace FlashAttention by SDPA."""
    if not (ASKS.search(source.data) and source.python.mentions(ASKS)):
        return NOTHING
    draft = Draft(source.python, name)
    for node in draft.source.names.nodes:
        match node:
            case ast.Constant(value=str(word)) if FLASH.fullmatch(word):
                _judge_word(draft, node)
            case ast.Constant(value=True) if is_chosen(draft.source, node, SWITCHES):
                _turn_off(draft, node)
            case ast.keyword(arg="packing", value=ast.Constant(value=True)):
                draft.warn(
                    node, "packing without FlashAttention lets samples attend to each other", hint="packing=False"
                )
    return draft.rewrite


def _judge_word(draft: Draft, node: ast.Constant) -> None:
    if not is_chosen(draft.source, node, CHOOSES_ATTENTION):
        return
    if judge_place(draft.source, node).verdict is Verdict.NEVER:
        return
    literal = rewritten_literal(draft.source, node, "sdpa")
    if literal is not None:
        draft.edits.append(draft.source.replace_node(node, literal, WHY))


def _turn_off(draft: Draft, value: ast.expr) -> None:
    if not is_gated(draft.source, value):
        draft.edits.append(draft.source.replace_node(value, "False", WHY))
