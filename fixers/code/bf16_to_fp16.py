"""bf16-to-fp16: Python and notebooks ask for float16 where they asked for bfloat16.

What it does
    On a card below compute capability 8.0, every place that chooses bfloat16 chooses float16: `torch.bfloat16` under
    any alias, `.bfloat16()`, `bf16=True`, `mixed_precision="bf16"`, dtypes given as words, defaults of arguments,
    fields and command-line options, DeepSpeed blocks, and what libraries choose when nothing is said. Values that need
    the range of bfloat16 become float32: an optimizer's own code, moments and averages (`variance_dtype=`,
    `state["exp_avg_sq"]`), Newton-Schulz iterations, what ranks reduce or send (`reduce_dtype`), losses, sums, powers,
    cumulative products, rotary frequencies and positions. `tf32=True` becomes False;
    `bf16=<what the card answers>` alone gets `fp16=` for cards that answer no. Comparisons, comments, docstrings and
    branches that already ask the card are never touched. What a script knows by a word of its own stays and gets a
    twin, because commands and configs say fp16 from now on: `--fp16` beside an option `--bf16`, a row or a choice
    "fp16" beside "bf16". Always comes with `trainable-fp32` and `scaler-gate`.

Why
    Volta and Turing cards have no bfloat16 units. What torch emulates is slow, what libraries check is fooled by the
    emulation, and matrix kernels refuse with errors that do not name the cause. float16 overflows at 65504 and has
    nothing below 6e-8: a squared gradient of 1e-4 is 0 there, and a product of large matrices is infinite.

Before
    model = AutoModel.from_pretrained(name, torch_dtype=torch.bfloat16)
    args = TrainingArguments(output_dir="out", bf16=True)

After
    model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)
    args = TrainingArguments(output_dir="out", fp16=True)

What it can break
    float16 ends at 65504: a model whose activations are larger overflows, which the proof shows. Code that compares
    a dtype with bfloat16 takes its other branch.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import re

from fixers.code.bf16_forms.flags import find_flags
from fixers.code.bf16_forms.loads import find_loads
from fixers.code.bf16_forms.values import find_values
from fixers.code.bf16_forms.vocabulary import find_vocabulary
from fixers.code.bf16_forms.words import find_words
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.python import reads_python
from fixers.sources.source import Source
from remote.policy.precision import BF16_FROM

name = "bf16-to-fp16"
version = 6
safety = "safe"
needles = (b"bfloat16", b"bf16", b"BF16", b"tf32", b"from_pretrained", b"trl")
below = BF16_FROM
brings = ("scaler-gate", "trainable-fp32")
matches = reads_python

ASKS = re.compile(rb"bfloat16|bf16|BF16|tf32")
IMPORTS_LOADER = re.compile(rb"""^[ \t"]*(?:from|import)[ \t]+(?:transformers|trl)\b""", re.MULTILINE)


def rewrite(source: Source, target: Target) -> Rewrite:
    """float16 wherever bfloat16 was chosen, or would be."""
    loads = IMPORTS_LOADER.search(source.data) is not None
    if not loads and not (ASKS.search(source.data) and source.python.mentions(ASKS)):
        return NOTHING
    draft = Draft(source.python, name)
    find_values(draft)
    find_words(draft)
    find_flags(draft)
    find_loads(draft, target)
    find_vocabulary(draft)
    return draft.rewrite
