"""Find what PEFT trains: only adapters or also weights of the base model, and whether the base model is quantised."""

from __future__ import annotations

import ast
import re

from fixers.sources.expressions import tail_of, written
from fixers.sources.python import PythonSource
from fixers.sources.splice import line_of

TRAINS_MORE = re.compile(
    rb"(?P<unfrozen>requires_grad)[ ]*=[ ]*True"
    rb"|(?<!output\.)(?<!outputs\.)(?<!input\.)(?<!inputs\.)requires_grad_\([ ]*(?:True[ ]*)?\)"
    rb"|modules_to_save[\"']?[ ]*[=:](?!=|[ ]*(?:None\b|\[\]))|trainable_token_indices"
    rb"|\b(?:SEQ_CLS|TOKEN_CLS|QUESTION_ANS)\b|bias[\"']?[ ]*[=:][ ]*[\"'](?:all|lora_only)"
)
"""Matches code that trains weights of the base model beside the adapters.

PEFT also trains the head of a classifier. Code that only lets gradients reach the inputs does not match, such as
`output.requires_grad_(True)`.
"""
QUANTISES = re.compile(rb"load_in_[48]bit|quantization_config")
STORES_HALF = re.compile(rb"bnb_4bit_quant_storage")
BITS = frozenset({"load_in_4bit", "load_in_8bit"})
LOADS = frozenset({"from_pretrained", "from_config"})
LOADS_ADAPTER = re.compile(r"(?:\w+\.)*(?:load_adapter|\w*PeftModel\w*\.from_pretrained)")
CONFIG = re.compile(r"\w*Config$")
OF_ADAPTER = re.compile(r"lora|adapter|ia3|prompt_encoder|prefix_encoder", re.IGNORECASE)


def trains_only_adapters(source: PythonSource) -> bool:
    """Return True if the file trains no weights of a model to which PEFT adds adapters."""
    found = list(TRAINS_MORE.finditer(source.text))
    if any(each["unfrozen"] is None for each in found):
        return False
    unfrozen = _lines_unfreezing_adapters(source) if found else frozenset()
    return all(line_of(source.text, each.start()) in unfrozen for each in found)


def _lines_unfreezing_adapters(source: PythonSource) -> frozenset[int]:
    """Return the lines that unfreeze only parameters of adapters, such as those with "lora" in their names."""
    lines: set[int] = set()
    for each in source.names.of_type(ast.Assign):
        above = source.names.parent(each)
        if isinstance(above, ast.If) and each in above.body and _names_adapters(above.test):
            lines.update(target.end_lineno or target.lineno for target in each.targets)
    return frozenset(lines)


def _names_adapters(test: ast.expr) -> bool:
    """Return True for a condition that holds only for parameter names of adapters, such as `"lora" in name`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return all(map(_names_adapters, values))
        case ast.BoolOp(values=values):
            return any(map(_names_adapters, values))
        case ast.Compare(left=ast.Constant(value=str() as word), ops=[ast.In()]):
            return OF_ADAPTER.search(word) is not None
    return False


def loads_adapter(source: PythonSource, at: ast.AST) -> bool:
    """Return True if the function around `at` loads an adapter, whose dtype may be half precision."""
    within = source.names.function(at)
    loads = (each for each in source.names.of_type(ast.Call) if source.names.function(each) is within)
    return any(LOADS_ADAPTER.fullmatch(source.segment(each.func)) for each in loads)


def may_quantise(source: PythonSource) -> bool:
    """Return True if the file may load a model in 4 or 8 bits."""
    return QUANTISES.search(source.data) is not None


def is_quantised(source: PythonSource, owner: str) -> bool:
    """Return True if each load of the model is in 4 or 8 bits, and its weights are stored as integers."""
    if STORES_HALF.search(source.data):
        return False
    calls = [each for each in _values(source, owner) if isinstance(each, ast.Call)]
    loads = [each for each in calls if tail_of(each) in LOADS and "Peft" not in source.segment(each.func)]
    return bool(loads) and all(any(_selects_bits(source, each) for each in load.keywords) for load in loads)


def is_adapter_config(source: PythonSource, value: ast.expr) -> bool:
    """Return True for `LoraConfig(...)` or a name that is assigned nothing else, so that it is never None."""
    if isinstance(value, ast.Call):
        return CONFIG.fullmatch(tail_of(value)) is not None
    made = _calls_assigned(source, written(source, value))
    return made is not None and all(CONFIG.fullmatch(tail_of(each)) for each in made)


def _values(source: PythonSource, name: str) -> list[ast.expr]:
    assigned = source.names.of_type(ast.Assign)
    return [each.value for each in assigned if name in (written(source, target) for target in each.targets)]


def _calls_assigned(source: PythonSource, name: str) -> list[ast.Call] | None:
    """Return the calls whose results are assigned to the name.

    None if nothing is assigned to the name, or anything but the result of a call.
    """
    values = _values(source, name) if name else []
    calls = [each for each in values if isinstance(each, ast.Call)]
    return calls if calls and len(calls) == len(values) else None


def _selects_bits(source: PythonSource, option: ast.keyword) -> bool:
    """Return True for `load_in_8bit=True`, and for a `quantization_config` that always has such an option."""
    if option.arg in BITS:
        return isinstance(option.value, ast.Constant) and option.value.value is True
    if option.arg != "quantization_config":
        return False
    value = option.value
    made = [value] if isinstance(value, ast.Call) else _calls_assigned(source, written(source, value))
    return made is not None and all(any(_selects_bits(source, each) for each in call.keywords) for call in made)
