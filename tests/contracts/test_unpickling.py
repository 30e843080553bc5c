"""Each place in torch.distributed that unpickles is signed, reads the user's own files, or is in docs/security.md.

A new release of torch could add a place through which another user of the host could run code in a training.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(sysconfig.get_path("purelib")) / "torch" / "distributed"
SIGNED = {
    "distributed_c10d.py:_tensor_to_object",
    "elastic/rendezvous/dynamic_rendezvous.py:sync",
    "optim/zero_redundancy_optimizer.py:_broadcast_object",
}
NAMED = {"checkpoint/_pg_transport.py:recv_checkpoint", "rpc/internal.py:deserialize"}
"""docs/security.md names `torch.distributed.rpc` and `PGTransport`."""
OWN_FILES = {
    "_tools/memory_tracker.py:load",
    "checkpoint/default_planner.py:load_bytes",
    "checkpoint/filesystem.py:read_metadata",
    "checkpoint/format_utils.py:read_data",
    "checkpoint/format_utils.py:torch_save_to_dcp",
    "flight_recorder/components/loader.py:read_dump",
}
LOADS = ("load", "loads", "_unpickler", "Unpickler")


def unpickles(call: ast.Call) -> bool:
    """Return True for a call of a pickle module or of torch.load without `weights_only`."""
    if any(each.arg == "weights_only" and not getattr(each.value, "value", True) for each in call.keywords):
        return True
    name = ast.unparse(call.func)
    return name.rpartition(".")[2] in LOADS and "pickle" in name.lower() and "weights_only" not in name


def places(folder: Path) -> Iterator[str]:
    """Yield the functions that unpickle, as `path:function`."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text("utf-8")
        if not any(word in text for word in ("pickle", "weights_only")):
            continue
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                isinstance(node, ast.Call) and unpickles(node) for node in ast.walk(function)
            ):
                yield f"{path.relative_to(folder).as_posix()}:{function.name}"


def test_every_place_of_torch_that_unpickles_is_known() -> None:
    found = set(places(FOLDER))
    assert found - SIGNED - NAMED - OWN_FILES == set()
    assert found >= SIGNED


def test_the_places_without_a_signature_are_named_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
    assert all(name in text for name in ("torch.distributed.rpc", "PGTransport"))


@pytest.mark.parametrize(
    "text",
    ["pickle.loads(data)", "_unpickler(file).load()", "torch.load(file, weights_only=False)", "pickle.Unpickler(f)"],
)
def test_each_form_of_unpickling_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "new.py").write_text(f"def receive(data):\n    return {text}\n")
    safe = "def receive(f):\n    return torch.load(f, weights_only=True), json.load(f), pickle.dumps(f)\n"
    (tmp_path / "safe.py").write_text(safe)
    assert list(places(tmp_path)) == ["new.py:receive"]
