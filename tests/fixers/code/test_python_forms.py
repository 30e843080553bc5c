"""Forms of bfloat16 in Python, one per row: changed, kept, or only reported."""

import pytest

from fixers.code import bf16_to_fp16
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.casebook import TITAN_RTX

IMPORTS = """\
import argparse
import os
from dataclasses import field
import torch, typer
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, TrainingArguments, WhisperModel
from trl import SFTConfig
"""


def outcome(code, packages):
    text = IMPORTS + code
    planned = plan_file("train.py", text.encode(), [bf16_to_fp16], Target(TITAN_RTX, packages))
    after = planned.change.after.decode() if planned.change else text
    assert after.startswith(IMPORTS)
    lines = IMPORTS.count("\n")
    findings = [(int(f.where.rpartition(":")[2]) - lines, f.severity.value, f.message) for f in planned.findings]
    return after.removeprefix(IMPORTS), findings


STAYS = None
ROWS = [
    ("x = torch.bfloat16", "x = torch.float16"),
    ("m.to(dtype=torch.bfloat16)", "m.to(dtype=torch.float16)"),
    ("def f(d=torch.bfloat16): pass", "def f(d=torch.float16): pass"),
    ("x.bfloat16()", "x.half()"),
    ("x.bfloat16(1)", STAYS),
    ("x.bfloat16", STAYS),
    ("c(reduce_dtype=torch.bfloat16)", "c(reduce_dtype=torch.float32)"),
    ("c(bnb_4bit_quant_storage=torch.bfloat16)\nFSDP = 1", "c(bnb_4bit_quant_storage=torch.float16)\nFSDP = 1"),
    ("assert d == torch.bfloat16", STAYS),
    ("x = d == torch.bfloat16", STAYS),
    ("assert torch.bfloat16", STAYS),
    ("t[torch.bfloat16]", STAYS),
    ("x: torch.bfloat16 = 1", STAYS),
    ("x: object = torch.bfloat16", "x: object = torch.float16"),
    ("def f(d: torch.bfloat16) -> torch.bfloat16: pass", STAYS),
    ("@g(torch.bfloat16)\ndef f(): pass", STAYS),
    ("def f():\n    return torch.bfloat16", "def f():\n    return torch.float16"),
    ("l = [torch.bfloat16]", "l = [torch.float16]"),
    ("l = [torch.bfloat16, torch.float16]", STAYS),
    ("l = (torch.bfloat16, 'fp32')", STAYS),
    ("l = (torch.bfloat16, 'x')", "l = (torch.float16, 'x')"),
    ("d = {'dtype': torch.bfloat16}", "d = {'dtype': torch.float16}"),
    ("d = {torch.bfloat16: 1}", STAYS),
    ("d = {'bf16': torch.bfloat16}", "d = {'fp16': torch.float16, 'bf16': torch.bfloat16}"),
    ("d = {'bf16': 'bfloat16'}", "d = {'fp16': 'float16', 'bf16': 'bfloat16'}"),
    ("d = {'bf16': 4}", STAYS),
    ("d = {'bf16': 'auto'}", "d = {'fp16': 'auto'}"),
    ("d = {'a': torch.bfloat16, 'b': torch.float32}", STAYS),
    ("d = {'a_dtype': torch.bfloat16, 'b': torch.float32}", "d = {'a_dtype': torch.float16, 'b': torch.float32}"),
    ("d = {**x, 'a': torch.bfloat16}", "d = {**x, 'a': torch.float16}"),
    ("x = torch.bfloat16 if a else torch.float16", "x = torch.float16 if a else torch.float16"),
    ("x = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16", STAYS),
    ("x = a if torch.cuda.is_bf16_supported() else torch.bfloat16", STAYS),
    ("if torch.cuda.is_bf16_supported():\n    x = torch.bfloat16", STAYS),
    ("ok = torch.cuda.is_bf16_supported()\nif ok:\n    x = torch.bfloat16", STAYS),
    ("c.ok = has_bf16()\nx = c.ok and torch.bfloat16", STAYS),
    ("def f():\n    if not supports_bf16():\n        return 1\n    return torch.bfloat16", STAYS),
    ("def f():\n    if not supports_bf16():\n        g()\n    return torch.bfloat16",
     "def f():\n    if not supports_bf16():\n        g()\n    return torch.float16"),
    ("if p == 'bf16':\n    x = torch.bfloat16\nelif p == 'half':\n    y = torch.bfloat16",
     "if p == 'bf16':\n    x = torch.bfloat16\nelif p == 'half':\n    y = torch.float16"),
    ("if p in ('bf16', 'fp16'):\n    x = torch.bfloat16", STAYS),
    ("with torch.autocast('cpu', torch.bfloat16): pass", STAYS),
    ("with torch.autocast(device_type='cpu', dtype=torch.bfloat16): pass", STAYS),
    ("with torch.cpu.amp.autocast(dtype=torch.bfloat16): pass", STAYS),
    ("with torch.autocast('cuda', torch.bfloat16): pass", "with torch.autocast('cuda', torch.float16): pass"),
    ("isinstance(d, torch.bfloat16); print(torch.bfloat16)", STAYS),
    ("f(torch.bfloat16, torch.float16)", STAYS),
    ("p.add_argument('-d', choices=[torch.bfloat16], help=torch.bfloat16)", STAYS),
    ("m(dtype='bfloat16')", "m(dtype='float16')"),
    ('m(torch_dtype=r"torch.bfloat16")', 'm(torch_dtype=r"torch.float16")'),
    ("Accelerator(mixed_precision='bf16')", "Accelerator(mixed_precision='fp16')"),
    ("dtype = 'bf16'", "dtype = 'fp16'"),
    ("a.dtype = c['dtype'] = 'bf16'", "a.dtype = c['dtype'] = 'fp16'"),
    ("dtype: str = 'bf16'", "dtype: str = 'fp16'"),
    ("name = 'bf16'", STAYS),
    ("m(name='bf16')", STAYS),
    ("m('bf16')", STAYS),
    ("'bf16'", STAYS),
    ("d = {'precision': 'bf16', 'name': 'bf16'}", "d = {'precision': 'fp16', 'name': 'bf16'}"),
    ("def f(a, dtype='bf16', *, precision='bf16', b='bf16'): pass",
     "def f(a, dtype='fp16', *, precision='fp16', b='bf16'): pass"),
    ("def f(dtype, /, b='bf16', *, c, precision='bf16'): pass",
     "def f(dtype, /, b='bf16', *, c, precision='fp16'): pass"),
    ("m(dtype='bf16' if a else b)", "m(dtype='fp16' if a else b)"),
    ("m(dtype=a or 'bf16')", "m(dtype=a or 'fp16')"),
    ("m(dtype=b if 'bf16' else c)", STAYS),
    ("p.add_argument('--dtype', default='bf16', choices=['bf16', 'fp16'])",
     "p.add_argument('--dtype', default='fp16', choices=['bf16', 'fp16'])"),
    ("p.add_argument('--name', default='bf16')", STAYS),
    ("dtype: str = field(default='bf16')", "dtype: str = field(default='fp16')"),
    ("dtype = Field(default='bf16')", "dtype = Field(default='fp16')"),
    ("other: str = field(default='bf16')", STAYS),
    ("dtype = getattr(torch, 'bfloat16')", "dtype = getattr(torch, 'float16')"),
    ("hasattr(torch, 'bfloat16')", STAYS),
    ("c.get('dtype', 'bf16'); c.setdefault('name', 'bf16')", "c.get('dtype', 'fp16'); c.setdefault('name', 'bf16')"),
    ("typer.Option('bf16', '--dtype')", "typer.Option('fp16', '--dtype')"),
    ("typer.Option('bf16', '--name')", STAYS),
    ("a = ['t', '--mixed_precision', 'bf16']", "a = ['t', '--mixed_precision', 'fp16']"),
    ("a = ['t', 'mixed_precision', 'bf16']", STAYS),
    ("a = ['bf16', '--mixed_precision']", STAYS),
    ("dtype == 'bf16'", STAYS),
    ("TrainingArguments(bf16=True)", "TrainingArguments(fp16=True)"),
    ("TrainingArguments(bf16=a)", "TrainingArguments(fp16=a)"),
    ("TrainingArguments(bf16=False)", STAYS),
    ("TrainingArguments(bf16=None)", STAYS),
    ("TrainingArguments(bf16=True, fp16=False)", "TrainingArguments(bf16=False, fp16=True)"),
    ("TrainingArguments(bf16=True, fp16=True)", "TrainingArguments(bf16=False, fp16=True)"),
    ("TrainingArguments(bf16=a, fp16=False)", "TrainingArguments(bf16=False, fp16=a)"),
    ("TrainingArguments(bf16=True, fp16=a)", "TrainingArguments(bf16=False, fp16=True)"),
    ("TrainingArguments(bf16=a, fp16=b)", "TrainingArguments(bf16=False, fp16=b or a)"),
    ("TrainingArguments(bf16=not a, fp16=b and c)", "TrainingArguments(bf16=False, fp16=(b and c) or (not a))"),
    ("TrainingArguments(bf16=has_bf16())", STAYS),
    ("TrainingArguments(bf16=a, fp16=not has_bf16())", STAYS),
    ("TrainingArguments(bf16=True, bf16_full_eval=True)", "TrainingArguments(fp16=True, fp16_full_eval=True)"),
    ("TrainingArguments(tf32=True)", "TrainingArguments(tf32=False)"),
    ("TrainingArguments(tf32=a)", STAYS),
    ("MyConfig(bf16=True); dict(bf16=True)", "MyConfig(fp16=True); dict(fp16=True)"),
    ("def f(bf16, fp16): pass\nf(bf16=True)", "def f(bf16, fp16): pass\nf(fp16=True)"),
    ("def f(*, bf16, fp16): pass\nf(bf16=True)", "def f(*, bf16, fp16): pass\nf(fp16=True)"),
    ("d = {'bf16': True}", "d = {'fp16': True}"),
    ('d = {"bf16": True, "fp16": False}', 'd = {"bf16": False, "fp16": True}'),
    ("d = {'bf16': a}", STAYS),
    ("d = {'bf16': False, 1: True, **e}", STAYS),
    ("d = {'tf32': True}", "d = {'tf32': False}"),
    ("a.bf16 = True", "a.fp16 = True"),
    ("a.bf16 = True\na.fp16 = False", "a.bf16 = False\na.fp16 = True"),
    ("a.bf16 = True\nb.fp16 = False", "a.fp16 = True\nb.fp16 = False"),
    ("a.bf16 = True\na.fp16 = x", "a.bf16 = False\na.fp16 = x"),
    ("if has_bf16():\n    a.bf16 = True\n    c['bf16'] = True", STAYS),
    ("a.bf16 = False; a.bf16 = b", STAYS),
    ("c['bf16'] = True; c['x'] = True", "c['fp16'] = True; c['x'] = True"),
    ("class A:\n    bf16: bool = True\n    fp16: bool = False",
     "class A:\n    bf16: bool = False\n    fp16: bool = True"),
    ("class A(TrainingArguments):\n    bf16: bool = field(default=True)",
     "class A(TrainingArguments):\n    fp16: bool = field(default=True)"),
    ("class A:\n    bf16: bool = False", STAYS),
    ("d = {'bf16': {'enabled': False}}", STAYS),
    ("d = {'bf16': {'x': True}}", STAYS),
    ("d = {'bf16': {'enabled': True}, 'fp16': {'enabled': False}}",
     "d = {'bf16': {'enabled': False}, 'fp16': {'enabled': True}}"),
    ("d = {'bf16': {'enabled': 'auto'}, 'fp16': {'enabled': 'auto'}}", STAYS),
    ("d = {'bf16': {'enabled': x.dtype == 'bfloat16'}, 'fp16': {'enabled': x.dtype == 'float16'}}", STAYS),
    ("d = {'bf16': {'enabled': True if x.dtype == 'bfloat16' else False},"
     " 'fp16': {'enabled': True if x.dtype == 'float16' else False}}", STAYS),
    ("d = {'bf16': {'enabled': bool(x.dtype == 'bf16')}, 'fp16': {'enabled': x.dtype == 'fp16'}}", STAYS),
    ("d = {'bf16': {'enabled': True if x.large else False}, 'fp16': {'enabled': False}}",
     "d = {'bf16': {'enabled': False}, 'fp16': {'enabled': True if x.large else False}}"),
    ("d = {'bf16': {'enabled': True}, 'fp16': {'enabled': 'auto'}}",
     "d = {'bf16': {'enabled': False}, 'fp16': {'enabled': 'auto'}}"),
    ("d = {'bf16': {'enabled': 'auto'}, 'fp16': {'enabled': True}}",
     "d = {'bf16': {'enabled': False}, 'fp16': {'enabled': True}}"),
    ("AutoModelForCausalLM.from_pretrained('m', dtype='auto')",
     "AutoModelForCausalLM.from_pretrained('m', dtype='float16')"),
    ("AutoModelForCausalLM.from_pretrained('m')", "AutoModelForCausalLM.from_pretrained('m', dtype=\"float16\")"),
    ("AutoModelForCausalLM.from_pretrained('m', torch_dtype=x)", STAYS),
    ("AutoModelForCausalLM.from_config(c)", STAYS),
    ("WhisperModel.from_pretrained('m')", STAYS),
    ("SFTConfig()", "SFTConfig(fp16=True)"),
    ("SFTConfig(bf16=False)", STAYS),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ROWS)
def test_each_form_is_rewritten_as_listed(before, after):
    assert outcome(before, {"transformers": "5.1"}) == (before if after is STAYS else after, [])


OWN = "bf16=True is passed to a class or function of the project; this card needs float16"
FALLBACK = "this selects bfloat16 or float32; float32 needs twice the memory; select float16 for this card"
STORAGE = "bnb_4bit_quant_storage must equal the dtype of FSDP's flat parameters; change both together"
REBOUND = "torch is also bound to another value, so its value here is unknown; left unchanged"
NO_DTYPE = "no dtype is given: transformers 5 loads a bfloat16 checkpoint as bfloat16"


@pytest.mark.parametrize(
    ("code", "line", "severity", "message"),
    [
        ("x = 1\nx = torch.bfloat16 if a else torch.float32", 2, "warning", FALLBACK),
        ("x = torch.float32 if a else torch.bfloat16", 1, "warning", FALLBACK),
        ("x = torch.bfloat16 if has_bf16() else torch.float", 1, "warning", FALLBACK),
        ("dtype = 'bf16' if a else 'no'", 1, "warning", FALLBACK),
        ("\nc(bnb_4bit_quant_storage=torch.bfloat16)", 2, "warning", STORAGE),
        ("def f():\n    torch = 1\n    return torch.bfloat16", 3, "warning", REBOUND),
        (
            "Trainer(\n  precision='bf16' '-true')",
            2,
            "error",
            "'bf16' '-true' spells bfloat16 in several adjacent strings; write '16-mixed'",
        ),
        ("thing(bf16=True)", 1, "warning", OWN),
        ("def f(bf16): pass\nf(bf16=True)", 2, "warning", OWN),
        ("class C:\n    bf16: int\nC(bf16=True)", 3, "warning", OWN),
        (
            "TrainingArguments(bf16=d == 'bf16')",
            1,
            "warning",
            "bf16 depends on a dtype, and fp16 is not set if that dtype is float16",
        ),
        (
            "d = {'bf16': {'enabled': True}, 'fp16': f}",
            1,
            "warning",
            "DeepSpeed's bf16 block is enabled; disable it, and enable the fp16 block where it is defined",
        ),
        ("class A:\n    bf16: bool = True", 2, "warning", "A.bf16 is True by default, and there is no fp16 field"),
        ("\nb.allow_tf32 = True", 2, "info", "this card has no TF32; the switch has no effect"),
        ("AutoModelForCausalLM.from_pretrained('m', **k)", 1, "warning", NO_DTYPE),
        ("SFTConfig(**k)", 1, "warning", "TRL enables bfloat16 unless float16 is set"),
    ],
)
def test_undecidable_forms_are_reported_with_their_line_and_not_changed(code, line, severity, message):
    assert outcome(code, {"transformers": "5.1"}) == (code, [(line, severity, message)])


@pytest.mark.parametrize(
    ("version", "findings"), [("4.57.3", []), ("5.0.0", []), (None, [(1, "warning", NO_DTYPE)])], ids=str
)
def test_a_model_without_a_dtype_is_bfloat16_from_transformers_5_on(version, findings):
    load = "AutoModelForCausalLM.from_pretrained('m')"
    after = load.replace(")", ', dtype="float16")') if version == "5.0.0" else load
    assert outcome(load, {"transformers": version} if version else {}) == (after, findings)


@pytest.mark.parametrize(("option", "is_old"), [("save_safetensors=True", True), ("warmup_ratio=0.1", False)])
def test_an_argument_that_transformers_5_rejects_shows_the_dtype_of_a_load(option, is_old):
    code = (
        f"from transformers import TrainingArguments\nTrainingArguments('out', {option})\n"
        "AutoModelForCausalLM.from_pretrained('m')"
    )
    assert outcome(code, {}) == (code, [] if is_old else [(3, "warning", NO_DTYPE)])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from torch import bfloat16\nx = bfloat16\n", "from torch import float16\nx = float16\n"),
        ("from torch import bfloat16 as bf\nx = bf\n", "from torch import float16 as bf\nx = bf\n"),
        ("from torch import nn, bfloat16\nx = bfloat16\n", "from torch import nn, float16\nx = float16\n"),
        ("from torch import bfloat16\nx = bfloat16 == y\n",) * 2,
        (
            "from torch import bfloat16\nx = bfloat16\ny = x == bfloat16\n",
            "from torch import bfloat16, float16\nx = float16\ny = x == bfloat16\n",
        ),
        ("from mine import bfloat16\nx = bfloat16\n",) * 2,
        ("from .torch import bfloat16\nx = bfloat16\n",) * 2,
        ("import torch as t\nx = t.bfloat16\n", "import torch as t\nx = t.float16\n"),
        ("import numpy as torch\nx = torch.bfloat16\n",) * 2,
    ],
)
def test_an_import_follows_its_uses(before, after):
    planned = plan_file("train.py", before.encode(), [bf16_to_fp16], Target(TITAN_RTX))
    assert (planned.change.after.decode() if planned.change else before) == after
