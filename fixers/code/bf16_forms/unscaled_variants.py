"""Recognise dtypes of weights that must stay bfloat16, because a settings class turns mixed precision off."""

from __future__ import annotations

import ast
import re

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import written
from fixers.sources.python import PythonSource

UNSCALED = "weights whose settings have a variant without mixed precision, where nothing would scale a float16 loss"
SWITCH = re.compile(r"(?:use_|enable_)?(?:mixed_precision|amp|autocast)")
OF_WEIGHTS = re.compile(r"(?!.*(?:mixed|amp|autocast|compute|precision))\w*dtype")


def is_of_unscaled_variant(source: PythonSource, node: ast.expr) -> bool:
    """Return True if a settings class declares this dtype, and a subclass in the file turns mixed precision off.

    Other files of the project may define variants of the settings with mixed precision; these are converted.
    """
    field = source.names.statement(node)
    if not isinstance(field, ast.AnnAssign) or not OF_WEIGHTS.fullmatch(written(source, field.target)):
        return False
    return isinstance(source.names.parent(field), ast.ClassDef) and any(
        _turns_off(source, each) for each in source.names.of_type(ast.ClassDef) if each.bases
    )


def _turns_off(source: PythonSource, settings: ast.ClassDef) -> bool:
    fields = (each for each in settings.body if isinstance(each, ast.AnnAssign))
    return any(SWITCH.fullmatch(written(source, each.target)) and constant_of(each.value) is False for each in fields)
