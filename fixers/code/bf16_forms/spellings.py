"""Find the spelling of float16 that every reader of an option in the project's code accepts."""

from __future__ import annotations

import ast

from fixers.code.draft import Draft
from fixers.frame.code_facts import is_started
from fixers.settings.refusals import refusal_of
from fixers.sources.python import PythonSource
from fixers.sources.readers.consumers import BF16Value, Consumers
from fixers.sources.readers.find import find_readers, may_contain_readers
from fixers.sources.readers.reader import option_name

LIBRARIES = frozenset(
    {"accelerate", "datasets", "deepspeed", "diffusers", "lightning", "optimum", "peft", "pytorch_lightning", "torch"}
    | {"transformers", "trl", "vllm", "sglang", "unsloth", "bitsandbytes", "fairscale", "xformers"}
)


def consumers_with_file(source: PythonSource, project: Consumers) -> Consumers:
    """Return the project's readers. Find the readers of this file again, because earlier fixers may have changed it."""
    readers = tuple(found.reader for found in find_readers(source)) if may_contain_readers(source.text) else ()
    return project.with_file(source.path, readers, is_started(source.text))


def float16_spelling(
    draft: Draft, consumers: Consumers, node: ast.expr, name: str | None, default: str, *, to_float32: bool = False
) -> str | None:
    """Return the replacement for a bfloat16 string. If a reader rejects every spelling, warn and return None."""
    if name is None or name == "torch":
        return default
    word = str(node.value) if isinstance(node, ast.Constant) else ""
    value = BF16Value(option_name(name), word, draft.source.path, to_float32=to_float32)
    spelling = consumers.resolve(value, default)
    if spelling.refused_by is not None:
        draft.warn(node, *refusal_of(word, spelling.refused_by, spelling.word))
        return None
    return spelling.word


def is_of_library(source: PythonSource, callee: ast.expr | None) -> bool:
    """Return True for a function imported from a library: the project's code does not restrict its values."""
    meaning = source.names.meaning(callee) if callee is not None else None
    return meaning is not None and meaning.partition(".")[0] in LIBRARIES
