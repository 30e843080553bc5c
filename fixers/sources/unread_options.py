"""Find options of TRL's ModelConfig that nothing reads: the code passes other attributes of it to the trainer."""

from __future__ import annotations

import ast

from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource

OF_LOADS = frozenset({"dtype", "torch_dtype", "attn_implementation"})
READS_ADAPTERS = frozenset({"get_peft_config"})
"""Functions of TRL that read only options of adapters."""


def is_unread_option(source: PythonSource, node: ast.AST) -> bool:
    """Return True for `ModelConfig(torch_dtype=...)` if the file reads only other attributes of the object.

    A trainer that gets only the name of the model loads it with its own options.
    """
    option = source.names.parent(node)
    call = source.names.parent(option) if isinstance(option, ast.keyword) and option.arg in OF_LOADS else None
    meaning = (source.names.meaning(call.func) or "") if isinstance(call, ast.Call) else ""
    if not (meaning.startswith("trl.") and meaning.endswith(".ModelConfig")):
        return False
    match source.names.parent(call) if call is not None else None:
        case ast.Assign(targets=[ast.Name(id=name)]):
            named = (each for each in source.names.of_type(ast.Name) if each.id == name)
            uses = [each for each in named if isinstance(each.ctx, ast.Load)]
            return bool(uses) and all(_reads_another(source, each) for each in uses)
    return False


def _reads_another(source: PythonSource, use: ast.Name) -> bool:
    above = source.names.parent(use)
    if isinstance(above, ast.Attribute):
        return isinstance(above.ctx, ast.Load) and above.attr not in OF_LOADS
    return isinstance(above, ast.Call) and use in above.args and tail_of(above) in READS_ADAPTERS
