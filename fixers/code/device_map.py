"""device-map: a trained model is placed entirely on the card of its process.

What it does
    In files that train with Trainer, `prepare` of Accelerate or a process group, sets `device_map="auto"` (and the
    balanced variants) of `from_pretrained` to None, so that the trainer places the whole model on the card of its
    process. A model that is quantised, or trained in a custom loop by several processes, is placed on `LOCAL_RANK`
    instead. A file is changed only in one of these cases:

    * It creates or joins several processes.
    * It belongs to a script that a command or documentation file of the project starts with a launcher (torchrun,
      `accelerate launch`, `deepspeed`, `mpirun`, `srun`).
    * It belongs to the script in the `command:` of the halfstep config, because halfstep may start this script on
      several cards.

    Not changed: files that do not train, scripts that are started only by plain `python`, files that select one
    card themselves, and a model that no trainer, optimizer or `prepare` receives, such as a teacher.

Why
    "auto" spreads layers over all cards and, without a message, over CPU memory. Distributed launches reject such a
    model (`You can't train a model that has been loaded with device_map='auto' in any distributed mode`), and
    off-loaded layers train very slowly or not at all. In one process on one card, "auto" is this card. Without a
    device map, transformers loads a GPTQ model for the CPU (`update_device_map` in its `quantizer_gptq.py`).

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
from collections.abc import Iterator

from fixers.code.draft import Draft
from fixers.frame.change import SkippedPlace
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.imports import imported
from fixers.sources.lines import lines_with
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.trained_models import may_train

name = "device-map"
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
LAUNCHES = re.compile(rb"notebook_launcher|\bmp\.spawn|(?:torchrun|accelerate launch|deepspeed )[^\n]*\.py\b")
SELECTS_ITSELF = re.compile(rb"LOCAL_RANK[\"']\][ ]*=(?!=)")
"""Matches code that sets the rank of its only process."""
QUANTISES = ("quantization_config", "load_in_4bit", "load_in_8bit")
QUANTISED = re.compile(rb"gptq|\bawq|autoawq", re.IGNORECASE)
"""Matches names of checkpoints whose weights are quantised already, and of the packages that load them."""
IN_ONE_PROCESS = "a model is loaded with device_map, and no command starts this code in several processes"
WHY = "the whole model is placed on the card of its process"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that place each trained model entirely on the card of its process."""
    if ONE_CARD.search(source.searched):
        return NOTHING
    placed = PLACES_MODEL.search(lines_with(source.searched, TRAINERS)) is not None
    if not placed and not DISTRIBUTED.search(lines_with(source.searched, PROCESSES)):
        return NOTHING
    by_trainer = placed and not QUANTISED.search(source.searched)
    draft = Draft(source.python, name)
    for load, value in _spread_loads(draft.source):
        quantised = any(each.arg in QUANTISES for each in load.keywords)
        _place(draft, value, by_trainer=by_trainer and not quantised)
    if (draft.edits or draft.findings) and not _may_run_in_processes(source, target):
        return Rewrite(skipped=(SkippedPlace(source.path, IN_ONE_PROCESS),))
    return draft.rewrite


def _spread_loads(source: PythonSource) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield the calls that spread a trained model over all cards, each with the value of `device_map`."""
    for call in source.names.of_type(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "from_pretrained":
            for keyword in call.keywords:
                spread = keyword.arg == "device_map" and constant_of(keyword.value) in SPREADS
                if spread and may_train(source, call):
                    yield call, keyword.value


def _may_run_in_processes(source: Source, target: Target) -> bool:
    """Return True if the code starts or joins several processes, or if a launcher may start several processes of it."""
    if LAUNCHES.search(source.searched):
        return True
    if source.path.endswith(".ipynb"):
        return False
    running = target.code_facts.in_processes
    joins = DISTRIBUTED.search(source.searched) and not SELECTS_ITSELF.search(source.searched)
    return bool(joins) or running is None or source.path in running


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
