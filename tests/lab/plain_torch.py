"""The first lines of a test's script that trains with the optimizers of torch, which import its compiler."""

from __future__ import annotations

WITHOUT_COMPILER = """\
import sys
import types

import torch

# The import of the compiler takes as much CPU time as that of torch: 1.3 s.
torch._dynamo = types.SimpleNamespace(disable=lambda step, *_, **__: step, graph_break=lambda *_: None)
sys.modules["torch._dynamo"] = torch._dynamo
"""
"""Imports torch. The optimizers call these two functions only."""
