"""Resolving a name at its position in a module."""

from __future__ import annotations

import ast

import pytest

from fixers.sources.names import Rebound, index_names

TORCH = "torch.bfloat16"
REBOUND = Rebound(TORCH)

MEANINGS = [
    ("import torch\nHERE = torch.bfloat16", TORCH),
    ("import torch as t\nHERE = t.bfloat16", TORCH),
    ("import torch.nn\nHERE = torch.bfloat16", TORCH),
    ("import torch.nn as torch\nHERE = torch.bfloat16", "torch.nn.bfloat16"),
    ("from torch import bfloat16 as b\nHERE = b", TORCH),
    ("from . import torch\nHERE = torch.bfloat16", "..torch.bfloat16"),
    ("from ..a import torch\nHERE = torch.bfloat16", "..a.torch.bfloat16"),
    ("HERE = torch.bfloat16", None),
    ("torch = 1\nHERE = torch.bfloat16", None),
    ("HERE = f().bfloat16", None),
    ("import torch\ntorch = 1\nHERE = torch.bfloat16", REBOUND),
    ("import torch\ntorch = None\nHERE = torch.bfloat16", TORCH),
    ("import torch\nif x:\n    import jax as torch\nHERE = torch.bfloat16", Rebound("jax.bfloat16")),
    ("import torch\ndef f():\n    HERE = torch.bfloat16", TORCH),
    ("import torch\ndef f(torch):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\ndef f(*torch):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\ndef f(**torch):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\ndef f(*, torch):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\ndef f(torch, /):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\ndef f(torch=(HERE := torch.bfloat16)): pass", TORCH),
    ("import torch\n@(HERE := torch.bfloat16)\ndef f(torch): pass", TORCH),
    ("import torch\nasync def f(torch):\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\nf = lambda torch: (HERE := torch.bfloat16)", REBOUND),
    ("import torch\nf = lambda other: (HERE := torch.bfloat16)", TORCH),
    ("import torch\n[(HERE := torch.bfloat16) for torch in x]", REBOUND),
    ("import torch\n{(HERE := torch.bfloat16): 1 for torch in x}", REBOUND),
    ("import torch\nfor torch in x: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\nwith x as torch: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\ntry: pass\nexcept E as torch: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\nmatch x:\n    case torch: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\nmatch x:\n    case [*torch]: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\ndef torch(): pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\nclass torch: pass\nHERE = torch.bfloat16", REBOUND),
    ("import torch\ndel torch\nHERE = torch.bfloat16", REBOUND),
    ("import torch\nclass A:\n    torch = 1\n    HERE = torch.bfloat16", REBOUND),
    ("import torch\nclass A:\n    torch = 1\n    def f(self):\n        HERE = torch.bfloat16", TORCH),
    ("class A:\n    import torch\n    HERE = torch.bfloat16", TORCH),
    ("class A:\n    import torch\n    def f(self):\n        HERE = torch.bfloat16", None),
    ("def f():\n    import torch\n    HERE = torch.bfloat16", TORCH),
    ("def f():\n    import torch\nHERE = torch.bfloat16", None),
    ("from tools import *\nHERE = torch.bfloat16", TORCH),
    ("def f():\n    HERE = torch.bfloat16\nfrom .tools import *", TORCH),
    ("from tools import *\ntorch = 1\nHERE = torch.bfloat16", None),
    ("from tools import *\ndef f(torch):\n    HERE = torch.bfloat16", None),
    ("from tools import *\nHERE = jax.bfloat16", None),
    ("def f():\n    import torch\n    def g():\n        HERE = torch.bfloat16", TORCH),
]


@pytest.mark.parametrize(("code", "meaning"), MEANINGS)
def test_a_name_is_resolved_as_in_python(code: str, meaning: object) -> None:
    names = index_names(ast.parse(code))
    (value,) = (_value(node) for node in names.nodes if _value(node) is not None)
    assert names.look_up(value) == meaning
    assert names.meaning(value) == (meaning if isinstance(meaning, str) else None)


def _value(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "HERE":
        return node.value
    if isinstance(node, ast.NamedExpr) and node.target.id == "HERE":
        return node.value
    return None


def test_nodes_are_in_the_order_of_the_file_and_have_their_ancestors() -> None:
    tree = ast.parse("a = 1\nif b:\n    c(d)\nelse:\n    e = lambda f: g\nh\n")
    names = index_names(tree)
    assert [name.id for name in names.of_type(ast.Name)] == ["a", "b", "c", "d", "e", "g", "h"]
    assert names.nodes[0] is tree
    call = names.of_type(ast.Call)[0]
    assert isinstance(names.statement(call), ast.Expr)
    assert [type(above).__name__ for above in names.ancestors(call)] == ["Expr", "If", "Module"]
    assert isinstance(names.function(names.of_type(ast.Name)[5]), ast.Lambda)
    assert names.function(call) is tree
    assert names.parent(tree) is None
    assert names.of_type(ast.Set) == ()
