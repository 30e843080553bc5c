"""bf16-to-fp16: Python files and notebooks use float16 instead of bfloat16.

What it does
    On a card below compute capability 8.0, replaces bfloat16 with float16 wherever code selects it: `torch.bfloat16`
    under any alias, `.bfloat16()`, `bf16=True`, `mixed_precision="bf16"`, dtypes as strings, defaults of arguments,
    fields and command-line options, commands given to `subprocess` and `os.system`, DeepSpeed blocks, and defaults of
    libraries. `tf32=True` becomes False. A call with only `bf16=<test of the card>` also gets `fp16=`, for cards
    without bfloat16. The fixer always runs together with `trainable-fp32` and `scaler-gate`.

    Values that need the range of bfloat16 become float32: optimizer code, moments and averages (`variance_dtype=`,
    `state["exp_avg_sq"]`), Newton-Schulz iterations, reductions and communication (`reduce_dtype`), losses, sums,
    powers, cumulative products, rotary frequencies and positions.

    Lightning's `bf16-true` becomes `16-mixed`, which keeps trained weights in float32, or `16-true` if the Trainer only
    tests, validates or predicts. `bf16-true` is not replaced, and an error is reported, if a Fabric loop would skip the
    loss scale, or if frozen weights are loaded without a dtype.

    An option's value, in any file, is replaced with a float16 spelling that the project's own code accepts. The fixer
    reads the accepted spellings from choices, if/elif chains, tables, asserts, `Literal`, enumerations, validators and
    fields. If that code accepts no float16, a choice, row or branch is added where one line suffices. Otherwise the
    value is not changed, and a warning names the line that rejects float16. Options keep their bfloat16 name and get a
    second name for float16 (`--fp16` beside `--bf16`).

    Not changed:

    * Comparisons, comments, docstrings and branches that test the card.
    * Code in a branch that an option selects for bfloat16, if the same code has a branch for float16.
    * A switch whose float16 counterpart is overwritten by a line of the project, or is not declared by the settings
      class.
    * A switch that selects float16 when it is off (`bfloat16 if args.bf16 else float16`), and the bfloat16 branch of a
      Trainer switch for float16 (`float16 if training_args.fp16 else bfloat16`).
    * The name of an option that is on by default, if no command or documentation file passes the option.
    * `autocast(enabled=config.bf16_run, dtype=torch.bfloat16)`, if settings of the project turn the switch off and
      nothing turns it on.
    * Code that runs only with `pure_bf16`, key-value caches, and rotary tables whose results are cast to the model's
      dtype.
    * Weights that are only saved, and a model that a function loads only to merge adapters into it and to save it.
    * A load without a dtype, if the file trains a whole encoder: encoders have float32 checkpoints.
    * A whole project if its own loop keeps float32 master weights and never scales the loss: its gradients would
      underflow.

Why
    Volta and Turing cards have no bfloat16 units. torch emulates bfloat16 on them: the emulation is slow, checks of
    libraries report that bfloat16 is supported, and matrix kernels fail with errors that do not name the cause. float16
    overflows above 65504 and underflows below 6e-8: the square of a gradient of 1e-4 is 0, and a product of large
    matrices is infinite.

Before
    model = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)
    args = TrainingArguments(output_dir="out", bf16=True)

After
    model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)
    args = TrainingArguments(output_dir="out", fp16=True)

What it can break
    A model with activations above 65504 overflows in float16, which the proof shows. Code that compares a dtype with
    bfloat16 takes the other branch.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.bf16_forms.assignments import replace_assigned_flags
from fixers.code.bf16_forms.flags import replace_flags
from fixers.code.bf16_forms.loads import set_load_dtypes
from fixers.code.bf16_forms.spellings import consumers_with_file
from fixers.code.bf16_forms.values import replace_values
from fixers.code.bf16_forms.vocabulary import extend_vocabulary
from fixers.code.bf16_forms.words import replace_words
from fixers.code.command_strings import edit_command_strings, runs_commands
from fixers.code.draft import Draft
from fixers.frame.change import SkippedPlace
from fixers.frame.code_facts import CodeFacts
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.expressions import tail_of, written
from fixers.sources.gates import NAMES_BF16
from fixers.sources.lines import holds_any, lines_with
from fixers.sources.option_defaults import UNUSED_DEFAULT, defaults_in
from fixers.sources.python import reads_python
from fixers.sources.source import Source
from remote.policy.precision import BF16_FROM

name = "bf16-to-fp16"
safety = "safe"
needles = (b"bfloat16", b"bf16", b"BF16", b"tf32", b"from_pretrained", b"trl")
below = BF16_FROM
requires = ("scaler-gate", "trainable-fp32")
matches = reads_python

UNSELECTED = "no code of the project selects this policy on a card without bfloat16"
PURE = "commands start this code with pure_bf16, and the code cannot select float16 instead"
SWITCHED_OFF = "autocast in bfloat16 that the project's settings turn off"
WORDS = (b"bfloat16", b"bf16", b"BF16", b"tf32")
PRECISION_WORDS = re.compile(b"|".join(WORDS))
LOADERS = (b"transformers", b"trl")
IMPORTS_LOADER = re.compile(rb"""^[ \t"]*(?:from|import)[ \t]+(?:transformers|trl)\b""", re.MULTILINE)


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that select float16 wherever code or a library's default selects bfloat16."""
    loads = IMPORTS_LOADER.search(lines_with(source.searched, LOADERS)) is not None
    may_select = loads or holds_any(source.searched, WORDS)
    if not may_select or not (loads or runs_commands(source.searched) or source.python.mentions(PRECISION_WORDS)):
        return NOTHING
    if target.code_facts.stays_pure(source.path):
        return Rewrite(skipped=(SkippedPlace(source.path, PURE),))
    draft = Draft(source.python, name)
    consumers = consumers_with_file(draft.source, target.code_facts.consumers)
    replace_values(draft)
    replace_words(draft, consumers, target.code_facts.traits.frozen_loads)
    edit_command_strings(draft)
    replace_flags(draft, consumers)
    replace_assigned_flags(draft, consumers)
    set_load_dtypes(draft, target)
    passed = None if target.started else target.code_facts.bf16_passed
    extend_vocabulary(draft, consumers, [each.name for each in target.code_facts.off_is_half], passed)
    _leave_unselected(draft, target.code_facts.unselected)
    _leave_switched_off(draft, target.code_facts)
    _leave_passed(draft, target.code_facts.unused_defaults)
    return draft.rewrite


def _leave_unselected(draft: Draft, policies: tuple[str, ...]) -> None:
    """Drop the edits of FSDP policies that the project does not select on this card."""
    for node in draft.source.names.of_type(ast.Assign) if policies else ():
        if any(isinstance(each, ast.Name) and each.id in policies for each in node.targets):
            _leave(draft, node, UNSELECTED)


def _leave_passed(draft: Draft, unused: tuple[str, ...]) -> None:
    """Drop the edits of defaults of options that every command passes."""
    options = {each.rpartition(":--")[2] for each in unused if each.startswith(f"{draft.source.path}:--")}
    nodes = draft.source.names.nodes if options else ()
    for name, default in (each for node in nodes for each in defaults_in(node)):
        if name in options:
            _leave(draft, default, UNUSED_DEFAULT)


def _leave_switched_off(draft: Draft, facts: CodeFacts) -> None:
    """Drop the edits of autocast blocks that the project's settings turn off."""
    for call in draft.source.names.of_type(ast.Call) if facts.bf16_off else ():
        if tail_of(call) == "autocast" and any(_is_off(draft, each, facts) for each in call.keywords):
            _leave(draft, call, SWITCHED_OFF)


def _is_off(draft: Draft, keyword: ast.keyword, facts: CodeFacts) -> bool:
    """Return True for `enabled=` with a bfloat16 switch that the project's settings turn off."""
    switch = written(draft.source, keyword.value).rpartition(".")[2]
    return keyword.arg == "enabled" and NAMES_BF16.search(switch) is not None and facts.is_off(switch)


def _leave(draft: Draft, node: ast.expr | ast.stmt, reason: str) -> None:
    """Drop the edits within the node, and record the reason."""
    start, end = draft.source.span(node)
    within = [edit for edit in draft.edits if start <= edit.start < end]
    draft.edits = [edit for edit in draft.edits if edit not in within]
    if within:
        draft.leave(node, reason)
