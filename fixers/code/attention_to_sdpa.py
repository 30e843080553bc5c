"""attention-to-sdpa: SDPA replaces FlashAttention, which the card cannot run.

What it does
    On a card below compute capability 8.0, replaces FlashAttention with SDPA where a keyword, key, name, default, flag
    or environment variable selects it. This includes Python heredocs and commands given to `subprocess` and
    `os.system`. Switches such as `use_flash_attention_2`, `use_flash` and `padding_free` become False. `launch-flags`
    and `mixed-precision-config` do the same in scripts, Dockerfiles and settings files.

    Eager attention replaces FlashAttention where the project's own alternative is eager (`"flash_attention_2" if x else
    "eager"`), and in a program with a model that has no SDPA: a class with `_supports_sdpa = False`, a class of
    `PreTrainedModel` that declares FlashAttention and not SDPA, or a table of attention classes without SDPA. A dtype
    that is float32 only where FlashAttention is off (`bfloat16 if use_flash_attention else float32`) becomes float16 if
    the file trains in mixed precision.

    Not changed: comparisons, lists of choices, branches that test the card, branches of a switch such as
    `args.use_flash_attn`, and the default of an argument that is set by every call or never read. A switch such as
    `flash_attn=True` is not changed in a project that uses SDPA and neither imports nor selects FlashAttention: there,
    the switch selects PyTorch's own attention.

    A training program that cannot run without FlashAttention is not changed, not even in its precision, and one warning
    gives the reason with file and line:

    * The program always imports a module that imports `flash_attn` itself, or that patches FlashAttention into a
      library.
    * The program asserts FlashAttention, raises an error for other attention, or has a table of attention
      classes that lists only FlashAttention.
    * The other branch of a switch raises an error, or uses variables that only the FlashAttention branch assigns.
    * Layers of transformers get a two-dimensional padding mask.
    * The file that selects FlashAttention assigns to `is_causal` of a layer.
    * A file loads remote code, and a text of its folder names Phi-3-vision or Phi-3.5-vision, which have no SDPA.
    * A class such as `LlamaFlashAttention2` is asserted or patched, and its SDPA counterpart is not.
    * A switch such as `use_ring_flash_attn` splits sequences over several cards.
    * Several samples are packed into one row, and `position_ids` that restart at 0 separate them.

    Two faults are reported and not repaired:

    * A kernel such as `flash_attn_func` is called. If a function, class or branch around the call has FlashAttention in
      its name, nothing is reported.
    * Sequences are packed. Without FlashAttention, packed samples attend to each other.

Why
    `FlashAttention only supports Ampere GPUs or newer.` SDPA's memory-efficient kernels run float16 on Maxwell and
    newer cards.

Before
    model = AutoModel.from_pretrained(name, attn_implementation="flash_attention_2")

After
    model = AutoModel.from_pretrained(name, attn_implementation="sdpa")

What it can break
    Nothing that works: FlashAttention kernels do not start on such a card. Remote code that supports only
    FlashAttention and eager attention rejects "sdpa"; use "eager" for such a model. The files of a checkpoint are read
    only if they are in the project.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection

from fixers.code.bf16_forms.checkpoint_fields import OF_CHECKPOINT, loaded_from_checkpoint
from fixers.code.bf16_forms.exclusions import Verdict, judge_place
from fixers.code.command_strings import edit_command_strings, runs_commands
from fixers.code.draft import Draft
from fixers.code.flash_fallbacks import keep_half, may_fall_back
from fixers.code.flash_kernel_calls import report_kernel
from fixers.frame.code_facts import CodeFacts
from fixers.frame.code_traits import Traits
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.settings.precision_words import as_false, is_true
from fixers.sources.attention_choice import alternative_of
from fixers.sources.chosen_words import chosen_name, constant_of, is_chosen, rewritten_literal
from fixers.sources.expressions import written
from fixers.sources.flash_defaults import default_row, is_default_of, is_unused_default
from fixers.sources.gates import is_gated
from fixers.sources.lines import lines_with
from fixers.sources.option_defaults import UNUSED_DEFAULT
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.unread_options import is_unread_option
from remote.policy.precision import BF16_FROM

name = "attention-to-sdpa"
safety = "safe"
needles = (b"flash_att", b"flash-att", b"FLASH_ATT", b"padding_free", b"use_flash")
below = BF16_FROM
requires: tuple[str, ...] = ()
matches = reads_python

WORDS = (*needles, b"flash-att", b"flashatt", b"kernels-community/", b"padding-free")
"""Each line that matches FLASH_CHOICE or KERNEL contains one of these words."""
FLASH_CHOICE = re.compile(
    rb"""["'=]flash_?att(?:ention|n)|kernels-community/"""
    rb"""|\b(?:(?:use[_-])?flash[_-]att(?:ention|n)(?:[_-]2)?|use_flash|padding[_-]free)["'\]]*[ ]*[=:,]"""
    rb"""|["'](?:USE_)?FLASH_ATT(?:ENTIO)?N(?:_2)?["']|["']--use[_-]flash[_-]att\w+["']""",
)
KERNEL = re.compile(rb"\bflash_attn_\w*\(")
IN_COMMAND = re.compile(rb"[ =]flash_att\w+|(?<![\w-])--[\w-]*flash[_-]att")
CHOOSES_ATTENTION = re.compile(
    r"(?:.*[._-])?_?(?:attn|attention)(?:[_-]?(?:impl|implementation|type|backend|mode))?$", re.IGNORECASE
)
FLASH = re.compile(r"flash_?att(?:ention|n)(?:_[23])?|kernels-community/(?:vllm-)?flash-attn\w*")
SWITCHES = re.compile(r"(?:use[_-])?flash[_-](?:attn|attention)(?:[_-]2)?$|use_flash$|padding[_-]free$", re.IGNORECASE)
FLASH_WORD, NAMES_KERNEL = re.compile(r"[\"']flash_?att"), re.compile(r"\bflash_attn_\w*func\b")
NAMES_FLASH = re.compile(r"flash|\bfa[23]\b", re.IGNORECASE)
NO_EFFECT = "defaults of settings that no code reads, or that every command sets"
FINDS_PACKAGE = re.compile(r"is_flash_attn\w*_available|has_flash_attn\w*\(|find_spec\([\"']flash_attn")
OTHER_ATTENTION = re.compile(r"attn\w*[\"'\]]*[ ]*[=:][ ]*[\"'](?:sdpa|eager)")
WHY = "FlashAttention needs compute capability 8.0"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Replace FlashAttention with SDPA."""
    lines = lines_with(source.searched, WORDS)
    chosen = FLASH_CHOICE.search(lines) is not None and source.python.mentions(FLASH_CHOICE)
    in_command = IN_COMMAND.search(lines) is not None and runs_commands(source.searched)
    calls_kernel = KERNEL.search(lines) is not None
    if not (chosen or in_command or calls_kernel or may_fall_back(source.searched)):
        return NOTHING
    draft = Draft(source.python, name)
    report_kernel(draft)
    edit_command_strings(draft)
    keep_half(draft)
    for node in draft.source.names.nodes:
        if isinstance(node, (ast.Constant, ast.keyword)):
            _judge(draft, node, target.code_facts)
    return draft.rewrite


def _judge(draft: Draft, node: ast.Constant | ast.keyword, code_facts: CodeFacts) -> None:
    """Judge one literal or keyword. Switches that select PyTorch's own attention are not changed."""
    traits = code_facts.traits
    match node:
        case ast.Constant(value=str(word)) if FLASH.fullmatch(word):
            _judge_word(draft, node, code_facts)
        case ast.Constant(value=str(word)) if is_true(word) and not traits.flash_is_sdpa:
            _judge_switch_word(draft, node, traits)
        case ast.Constant(value=str(word)) if word.startswith("--"):
            _judge_option(draft, node, traits)
        case ast.Constant(value=True) if not traits.flash_is_sdpa:
            _turn_off(draft, node, traits)
        case ast.keyword(arg="packing", value=ast.Constant(value=True)):
            draft.warn(node, "packing without FlashAttention lets samples attend to each other", hint="packing=False")


def _judge_word(draft: Draft, node: ast.Constant, code_facts: CodeFacts) -> None:
    if not is_chosen(draft.source, node, CHOOSES_ATTENTION):
        return
    if judge_place(draft.source, node).verdict is Verdict.NEVER or _is_selected(draft.source, node):
        return
    if is_default_of(draft.source, node, code_facts.traits.unused_defaults) or is_unread_option(draft.source, node):
        draft.leave(node, NO_EFFECT)
        return
    if _is_left_default(draft, node, code_facts.flash_defaults) or _must_stay(draft, node, code_facts.traits):
        return
    word = alternative_of(draft.source, node) or code_facts.traits.other_attention
    literal = rewritten_literal(draft.source, node, word)
    if literal is not None:
        draft.edits.append(draft.source.replace_node(node, literal, WHY))


def _is_left_default(draft: Draft, node: ast.Constant, relied: Collection[str] = ()) -> bool:
    """Record the place and return True for the default of an argument that no caller in this file relies on."""
    if default_row(draft.source, node) in relied or not is_unused_default(draft.source, node):
        return False
    draft.leave(node, UNUSED_DEFAULT)
    return True


def _must_stay(draft: Draft, node: ast.Constant, traits: Traits, switch: str = "") -> bool:
    """Warn and return True if the project's code fails without FlashAttention."""
    broken = traits.broken_without_flash(draft.source.path, switch)
    if broken is not None:
        draft.warn(node, broken.message)
    return broken is not None


def _judge_switch_word(draft: Draft, node: ast.Constant, traits: Traits) -> None:
    """Set the value in `os.environ["USE_FLASH_ATTN"] = "1"` and `["--use_flash_attn", "True"]` to false."""
    switch = chosen_name(draft.source, node, SWITCHES)
    if switch is None or is_gated(draft.source, node) or _must_stay(draft, node, traits, switch):
        return
    literal = rewritten_literal(draft.source, node, as_false(str(node.value)))
    if literal is not None:
        draft.edits.append(draft.source.replace_node(node, literal, WHY))


def _judge_option(draft: Draft, node: ast.Constant, traits: Traits) -> None:
    """Judge an item of a list of arguments: `--attn_implementation=flash_attention_2`, `--use_flash_attn`."""
    above = draft.source.names.parent(node)
    if not isinstance(above, (ast.List, ast.Tuple)):
        return
    flag, given, value = str(node.value).partition("=")
    if given and FLASH.fullmatch(value) and CHOOSES_ATTENTION.match(flag.lstrip("-")):
        literal = rewritten_literal(draft.source, node, f"{flag}=sdpa")
    elif given and is_true(value) and SWITCHES.match(flag.lstrip("-")):
        literal = rewritten_literal(draft.source, node, f"{flag}={as_false(value)}")
    else:
        if not given and SWITCHES.match(flag.lstrip("-")) and _has_no_value(above, node):
            draft.warn(node, f"{flag} selects FlashAttention, which does not run on this card")
        return
    named = "" if FLASH.fullmatch(value) else flag
    if literal is not None and not is_gated(draft.source, node) and not _must_stay(draft, node, traits, named):
        draft.edits.append(draft.source.replace_node(node, literal, WHY))


def _has_no_value(arguments: ast.List | ast.Tuple, node: ast.expr) -> bool:
    """Return True if the flag is one of several arguments and no value follows it."""
    items = [constant_of(each) for each in arguments.elts]
    at = arguments.elts.index(node)
    after = items[at + 1] if at + 1 < len(items) else "--"
    return isinstance(after, str) and after.startswith("-") and len(items) > 1


def _is_selected(source: PythonSource, node: ast.expr) -> bool:
    """Return True if a condition or dict key for FlashAttention selects the value, or if a `try` falls back from it."""
    child: ast.AST = node
    for above in source.names.ancestors(node):
        if isinstance(above, ast.If) and child in above.body and _is_of_flash(source, above):
            return True
        if isinstance(above, ast.Dict) and child in above.values:
            key = constant_of(above.keys[above.values.index(child)])
            return isinstance(key, str) and FLASH.fullmatch(key) is not None
        if isinstance(above, ast.IfExp) and child is above.body and _tests_for_flash(source, above.test):
            return alternative_of(source, node) is not None
        if isinstance(above, ast.Try) and child in above.body and _falls_back(source, above):
            return True
        child = above
    return False


def _is_of_flash(source: PythonSource, branch: ast.If) -> bool:
    """Return True for a branch whose test names FlashAttention, or whose statements use its kernels."""
    if NAMES_FLASH.search(source.segment(branch.test)):
        return True
    return any(NAMES_KERNEL.search(source.segment(each)) for each in branch.body)


def _follows_choice(source: PythonSource, value: ast.Constant) -> bool:
    """Return True if the value is in a branch or conditional expression that tests whether FlashAttention is chosen."""
    child: ast.AST = value
    for above in source.names.ancestors(value):
        body = above.body if isinstance(above, ast.If) else [above.body] if isinstance(above, ast.IfExp) else []
        if isinstance(above, (ast.If, ast.IfExp)) and child in body and _compares_flash(source, above.test):
            return True
        child = above
    return False


def _compares_flash(source: PythonSource, test: ast.expr) -> bool:
    """Return True for `attention == "flash_attention_2"`, and for a switch such as `args.use_flash_attn`."""
    if isinstance(test, ast.Compare):
        return FLASH_WORD.search(source.segment(test)) is not None
    return _is_switch(source, test)


def _tests_for_flash(source: PythonSource, test: ast.expr) -> bool:
    """Return True for a switch such as `args.use_flash_attn`, and for a test such as `is_flash_attn_2_available()`.

    The switch is turned off at the place that sets it.
    """
    return FINDS_PACKAGE.search(source.segment(test)) is not None or _is_switch(source, test)


def _is_switch(source: PythonSource, test: ast.expr) -> bool:
    return SWITCHES.match(written(source, test).rpartition(".")[2]) is not None


def _falls_back(source: PythonSource, block: ast.Try) -> bool:
    """Return True if an exception handler of the block selects another attention implementation."""
    texts = (source.segment(each) for handler in block.handlers for each in handler.body)
    return any(OTHER_ATTENTION.search(text) for text in texts)


def _turn_off(draft: Draft, value: ast.Constant, traits: Traits) -> None:
    """Set the switch to False.

    `self.padding_free = True` is ignored: it is the state of an object, not an option.
    """
    switch = chosen_name(draft.source, value, SWITCHES)
    if switch is not None and (where := loaded_from_checkpoint(draft.source, value)) is not None:
        draft.warn(value, OF_CHECKPOINT.format(name=switch), hint=where)
        return
    above = draft.source.names.parent(value)
    is_state = isinstance(above, (ast.Assign, ast.AnnAssign)) and "padding_free" in draft.source.segment(above)
    if switch is None or is_state or is_gated(draft.source, value) or _is_left_default(draft, value):
        return
    if is_default_of(draft.source, value, traits.unused_defaults):
        draft.leave(value, NO_EFFECT)
        return
    if traits.is_settled(switch) or _follows_choice(draft.source, value) or _must_stay(draft, value, traits, switch):
        return
    draft.edits.append(draft.source.replace_node(value, "False", WHY))
