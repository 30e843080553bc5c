"""The payload never unpickles what another process of a training sent."""

from __future__ import annotations

import ast

import pytest

from tests.contracts.project_modules import ROOT

PAYLOAD = sorted((ROOT / "remote/payload").rglob("*.py"))
OBJECT_COLLECTIVES = (
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
    "gather_for_metrics",
)
UNPICKLING = ("pickle", "cPickle", "dill", "cloudpickle", "joblib")


def names_in(source: str) -> set[str]:
    """Return the names, attributes and imported modules of a module."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.update(node.name.split("."))
    return found


@pytest.mark.parametrize("path", PAYLOAD, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_payload_uses_no_collective_of_objects(path: object) -> None:
    source = (ROOT / str(path)).read_text(encoding="utf-8")
    assert not names_in(source).intersection((*OBJECT_COLLECTIVES, *UNPICKLING))


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.distributed.all_gather_object(shares, 1)\n",
        "from torch.distributed import broadcast_object_list as share\n",
        "from accelerate.utils import gather_object\n",
        "import pickle\n",
    ],
)
def test_a_collective_of_objects_is_found_in_every_spelling(source: str) -> None:
    assert names_in(source).intersection((*OBJECT_COLLECTIVES, *UNPICKLING))
