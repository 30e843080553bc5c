"""Recognise defaults of a configuration class that a checkpoint's own `config.json` overrides."""

from __future__ import annotations

import ast

from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource

READS = frozenset(
    {"model_validate_json", "model_validate", "parse_raw", "parse_file", "parse_obj", "from_json_file", "from_dict"}
)
OF_CHECKPOINT = "{name} is not changed: a checkpoint's config.json sets it, and this default is not used"
MODEL_CONFIGS = ("PretrainedConfig", "PreTrainedConfig")
HINT = "change it in the config.json of the checkpoint: "


def loaded_from_checkpoint(source: PythonSource, node: ast.expr) -> str | None:
    """Return a hint if the value is the default of a field that the code reads from `config.json`, or None.

    The hint names the line that loads the class. `from_pretrained` loads the config classes of transformers.
    """
    if (name := _model_config(source, node)) is not None:
        return HINT + f"{name}.from_pretrained reads it"
    field = source.names.statement(node)
    within = source.names.parent(field)
    if not isinstance(field, ast.AnnAssign) or not isinstance(within, ast.ClassDef):
        return None
    created = [call for call in source.names.of_type(ast.Call) if _creates(source, call, within.name)]
    if not created or b"config.json" not in source.text:
        return None
    read = [call for call in created if _reads(source, call)]
    return HINT + source.where(read[0]) if len(read) == len(created) else None


def _model_config(source: PythonSource, node: ast.expr) -> str | None:
    """Return the name of the PretrainedConfig class if the value is a default of its constructor, otherwise None."""
    above = source.names.parent(node)
    function = source.names.parent(above) if isinstance(above, ast.arguments) else None
    within = source.names.parent(function) if isinstance(function, ast.FunctionDef) else None
    if not isinstance(within, ast.ClassDef) or not isinstance(function, ast.FunctionDef) or function.name != "__init__":
        return None
    bases = (source.segment(base).rpartition(".")[2] for base in within.bases)
    return within.name if any(base in MODEL_CONFIGS for base in bases) else None


def _creates(source: PythonSource, call: ast.Call, name: str) -> bool:
    """Return True if the call creates an object of the class: `Config(...)` or `Config.model_validate_json(...)`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) and tail_of(call) in READS else call.func
    return isinstance(owner, ast.Name) and owner.id == name


def _reads(source: PythonSource, call: ast.Call) -> bool:
    """Return True for a method that reads all fields, and for `Config(**json.load(file))`."""
    if isinstance(call.func, ast.Attribute):
        return True
    starred = [each.value for each in call.keywords if each.arg is None]
    return not call.args and len(starred) == len(call.keywords) == 1
