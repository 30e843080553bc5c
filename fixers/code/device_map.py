"""device-map: a trained model is placed entirely on the card of its process.

What it does
    In files that train with Trainer, `prepare` of Accelerate or a process group, sets `device_map="auto"` (and the
    balanced variants) of `from_pretrained` to None, so that the trainer places the whole model on the card of its
    process. A model that is quantised while loading, or trained in a custom loop by several processes, is placed on
    `LOCAL_RANK` instead.

    Not changed: files that do not train, files that select one card themselves, notebooks that start no other process,
    and a model that no trainer, optimizer or `prepare` receives, such as a teacher.

Why
    "auto" spreads layers over all cards and, without a message, over CPU memory. Distributed launches reject such a
    model (`You can't train a model that has been loaded with device_map='auto' in any distributed mode`), and
    off-loaded layers train very slowly or not at all.

Before
    model = AutoModel.from_pretrained(name, device_map="auto")
    trainer = Trainer(model=model, args=args)

After
    model = AutoModel.from_pretrained(name, device_map=None)
    trainer = Trainer(model=model, args=args)

What it can break
    A model that does not fit on one card fails with CUDA out of memory instead of being spread.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.imports import imported
from fixers.sources.lines import lines_with
from fixers.sources.python import reads_python
from fixers.sources.source import Source
from fixers.sources.trained_models import may_train

name = "device-map"
version = 4
safety = "safe"
needles = (b"device_map",)
below = None
requires: tuple[str, ...] = ()
matches = reads_python

SPREADS = ("auto", "balanced", "balanced_low_0", "sequential")
TRAINERS = (b"Trainer(", b".prepare(")
PLACES_MODEL = re.compile(rb"\w*Trainer\(|\.prepare\(")
PROCESSES = (b"init_process_group", b"DataParallel", b"LOCAL_RANK", b"DDP(", b"FSDP(")
DISTRIBUTED = re.compile(
    rb"init_process_group|DistributedDataParallel|FullyShardedDataParallel|LOCAL_RANK|\bDDP\(|\bFSDP\("
)
ONE_CARD = re.compile(rb"[\"']CUDA_VISIBLE_DEVICES[\"']\][ ]*=[ ]*[\"']\d[\"']")
LAUNCHES = re.compile(rb"notebook_launcher|\bmp\.spawn|torchrun|accelerate launch|deepspeed ")
QUANTISES = ("quantization_config", "load_in_4bit", "load_in_8bit")
WHY = "the whole model is placed on the card of its process"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that place each trained model entirely on the card of its process."""
    if ONE_CARD.search(source.data) or _is_one_process(source):
        return NOTHING
    placed = PLACES_MODEL.search(lines_with(source.data, TRAINERS)) is not None
    if not placed and not DISTRIBUTED.search(lines_with(source.data, PROCESSES)):
        return NOTHING
    draft = Draft(source.python, name)
    for call in draft.source.names.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "from_pretrained":
            for keyword in call.keywords:
                spread = keyword.arg == "device_map" and constant_of(keyword.value) in SPREADS
                if spread and may_train(draft.source, call):
                    quantised = any(each.arg in QUANTISES for each in call.keywords)
                    _place(draft, keyword.value, by_trainer=placed and not quantised)
    return draft.rewrite


def _is_one_process(source: Source) -> bool:
    """Return True for a notebook that does not start the processes of a distributed training."""
    return source.path.endswith(".ipynb") and not LAUNCHES.search(source.data)


def _place(draft: Draft, value: ast.expr, *, by_trainer: bool) -> None:
    if by_trainer:
        draft.edits.append(draft.source.replace_node(value, "None", WHY))
        return
    os = imported(draft.source, "os", WHY)
    quote = draft.source.quote_for(value)
    if os is None or quote is None:
        draft.warn(value, "a trained model is spread over cards", hint='device_map={"": local_rank}')
        return
    draft.edits += [edit for edit in os.edits if edit not in draft.edits]
    written = f'{{"": int({os.name}.environ.get("LOCAL_RANK", "0"))}}'
    draft.edits.append(draft.source.replace_node(value, written.replace('"', quote), WHY))
