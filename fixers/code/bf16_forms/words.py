"""Edit the strings `"bfloat16"` and `"bf16"` where they select a precision."""

from __future__ import annotations

import ast
import re

from fixers.code.bf16_forms.checkpoint_fields import OF_CHECKPOINT, loaded_from_checkpoint
from fixers.code.bf16_forms.exclusions import Verdict, judge_place
from fixers.code.bf16_forms.lightning import (
    TRUE_WORD,
    keeps_frozen_weights,
    refuse_plugin,
    unscaled_step,
    warn_of_memory,
)
from fixers.code.bf16_forms.spellings import float16_spelling, is_of_library
from fixers.code.bf16_forms.unscaled_variants import UNSCALED, is_of_unscaled_variant
from fixers.code.bf16_forms.wide_range import needs_range
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.precision_words import FULL, WHY_RANGE, counterpart_of, option
from fixers.sources.chosen_words import callee_of, chosen_name, constant_of, returning_function, rewritten_literal
from fixers.sources.lightning_trainers import only_evaluates
from fixers.sources.readers.consumers import Consumers

MEANS_PRECISION = re.compile(
    r"(?:.*[._-])?(?:d_?type|data_?type|precision|amp|amp_type|autocast_type|mixed_precision|weights)$", re.IGNORECASE
)
WORDS = {
    "bfloat16": "float16",
    "torch.bfloat16": "torch.float16",
    "bf16": "fp16",
    "BF16": "FP16",
    "bf16-mixed": "16-mixed",
    TRUE_WORD: "16-mixed",
}
OF_AMP = ("amp_bf16", "amp_bfloat16")
"""Values that select autocast in bfloat16. Their float16 spelling differs between projects: `amp` or `amp_fp16`."""
TRUE_HALF = "16-true"
"""Lightning's value for half-precision weights that are not trained: they need no float32 copy and no loss scale."""
LIGHTNING_WORDS = {"bf16": "16-mixed", "bf16-mixed": "16-mixed"}
OVERRIDE = re.compile(r"((?:\+{0,2}|--)[\w.-]*(?:precision|d_?type)=)([\w.-]+)")


def replace_words(draft: Draft, consumers: Consumers, frozen_loads: tuple[str, ...] = ()) -> None:
    """Replace every bfloat16 string that selects a precision with a spelling that all readers of the option accept."""
    for node in draft.source.names.of_type(ast.Constant):
        if not isinstance(node.value, str) or "bf" not in node.value.lower():
            continue
        if node.value == TRUE_WORD:
            refuse_plugin(draft, node)
        if node.value in WORDS:
            _judge_word(draft, consumers, node, frozen_loads)
        elif node.value == "--bf16":
            _judge_flag(draft, node)
        elif node.value in OF_AMP:
            _warn_of_amp(draft, node)
        else:
            _judge_override(draft, node)


def _judge_word(draft: Draft, consumers: Consumers, node: ast.Constant, frozen_loads: tuple[str, ...]) -> None:
    name = _option_of(draft, node)
    if name is None:
        return
    where = loaded_from_checkpoint(draft.source, node)
    judged = judge_place(draft.source, node)
    if where is not None:
        draft.warn(node, OF_CHECKPOINT.format(name=name), hint=where)
    elif judged.verdict is Verdict.WARN:
        draft.warn(node, judged.message)
    elif judged.verdict is Verdict.NEVER and judged.message:
        draft.leave(node, judged.message)
    elif is_of_unscaled_variant(draft.source, node):
        draft.leave(node, UNSCALED)
    elif judged.verdict is Verdict.ACT and node.value == TRUE_WORD and only_evaluates(draft.source, node):
        _replace(draft, node, TRUE_HALF)
    elif judged.verdict is Verdict.ACT and (node.value != TRUE_WORD or _may_be_mixed(draft, node, frozen_loads)):
        _spell(draft, consumers, node, name)


def _warn_of_amp(draft: Draft, node: ast.Constant) -> None:
    if _option_of(draft, node) and judge_place(draft.source, node).verdict is Verdict.ACT:
        draft.warn(
            node, f"{constant_of(node)} selects bfloat16, and its float16 spelling is unknown", hint="amp, or amp_fp16"
        )


def _may_be_mixed(draft: Draft, node: ast.Constant, frozen_loads: tuple[str, ...]) -> bool:
    """Return True if 16-mixed can replace bf16-true, and warn of the additional memory. Return False otherwise."""
    broken = unscaled_step(draft.source)
    if broken:
        draft.refuse(node, *broken)
    elif not keeps_frozen_weights(draft, node, frozen_loads):
        warn_of_memory(draft)
        return True
    return False


def _spell(draft: Draft, consumers: Consumers, node: ast.Constant, name: str) -> None:
    """Replace the value with the spelling that the readers of the option accept."""
    to_float32 = _needs_range(draft, node)
    default = FULL[str(node.value)] if to_float32 else _counterpart(draft, node)
    read_as = None if is_of_library(draft.source, callee_of(draft.source, node)) else name
    word = float16_spelling(draft, consumers, node, read_as, default, to_float32=to_float32)
    if word is not None:
        _replace(draft, node, word, WHY_RANGE if to_float32 else NO_BFLOAT16)


def _option_of(draft: Draft, node: ast.Constant) -> str | None:
    """Return the name of the option, variable or function that has this value, or None."""
    name = chosen_name(draft.source, node, MEANS_PRECISION) or _option_of_variable(draft, node)
    return name or returning_function(draft.source, node, MEANS_PRECISION)


def _needs_range(draft: Draft, node: ast.Constant) -> bool:
    return node.value in FULL and needs_range(draft.source, node)


def _option_of_variable(draft: Draft, node: ast.Constant) -> str | None:
    """Return `mixed_precision` for `mp = "bf16"` if every use of the variable is like `mixed_precision=mp`.

    Return None otherwise.
    """
    above = draft.source.names.parent(node)
    match above:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            every = draft.source.names.of_type(ast.Name)
            uses = [each for each in every if each.id == name and each is not above.targets[0]]
            names = [
                chosen_name(draft.source, each, MEANS_PRECISION) if isinstance(each.ctx, ast.Load) else None
                for each in uses
            ]
            return names[0] if names and all(names) else None
    return None


def _counterpart(draft: Draft, node: ast.Constant) -> str:
    """Return the float16 word. Lightning uses "16-mixed" instead of "fp16"."""
    above = draft.source.names.parent(node)
    call = draft.source.names.parent(above) if isinstance(above, ast.keyword) else None
    if isinstance(above, ast.keyword) and isinstance(call, ast.Call) and above.arg == "precision":
        meaning = draft.source.names.meaning(call.func) or ""
        if "lightning" in meaning.partition(".")[0]:
            return LIGHTNING_WORDS.get(str(node.value), WORDS[str(node.value)])
    return WORDS[str(node.value)]


def _judge_flag(draft: Draft, node: ast.Constant) -> None:
    """Replace `--bf16` in a command that is a list of strings."""
    above = draft.source.names.parent(node)
    if isinstance(above, ast.List) and _is_command(above):
        _replace(draft, node, "--fp16")


def _is_command(display: ast.List) -> bool:
    words = [constant_of(each) for each in display.elts]
    if "--fp16" in words:
        return False
    return any(isinstance(word, str) and word.endswith((".py", "launch", "torchrun", "python", "-m")) for word in words)


def _judge_override(draft: Draft, node: ast.Constant) -> None:
    """Replace `++model.precision=bf16` in a command or a list of overrides."""
    above = draft.source.names.parent(node)
    match = OVERRIDE.fullmatch(str(node.value))
    if match and match[2] in WORDS and isinstance(above, ast.List):
        _replace(draft, node, match[1] + (counterpart_of(option(match[1]).rstrip("="), match[2]) or WORDS[match[2]]))


def _replace(draft: Draft, node: ast.Constant, word: str, why: str = NO_BFLOAT16) -> None:
    literal = rewritten_literal(draft.source, node, word)
    if literal is None:
        written = draft.source.segment(node)
        report = draft.refuse if node.value == TRUE_WORD else draft.warn
        report(node, f"{written} spells bfloat16 in several adjacent strings; write {word!r}")
        return
    draft.edits.append(draft.source.replace_node(node, literal, why))
