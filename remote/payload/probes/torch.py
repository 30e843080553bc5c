"""A test in the project's interpreter: import the packages of the training, and multiply matrices on each GPU."""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any, Dict, List


def main() -> int:
    """Read {"packages": [...]} from stdin and print one JSON object to stdout. Output of libraries goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.read() or b"{}")
    gc.disable()  # a quarter of the time of the imports would be spent in collections
    imports = try_imports(request.get("packages", ["torch"]))
    answer: Dict[str, Any] = {"imports": imports}
    if not imports.get("torch", "absent"):
        answer.update(try_cards(sys.modules["torch"]))
    json.dump(answer, out)
    out.close()
    return 0


def try_imports(names: List[str]) -> Dict[str, str]:
    """Return the error of each package's import, or "" if the import succeeds."""
    problems: Dict[str, str] = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - an import may fail in any way, which is the result
            problems[name] = f"{type(error).__name__}: {error}"[:500]
        else:
            problems[name] = ""
    return problems


def try_cards(torch: Any) -> Dict[str, Any]:
    """Return the architectures that torch was built for, and the result of a matrix product on every visible GPU."""
    available = bool(torch.cuda.is_available())
    cards = [_try_card(torch, index) for index in range(torch.cuda.device_count() if available else 0)]
    return {"arch_list": list(torch.cuda.get_arch_list()), "cuda_available": available, "cards": cards}


def _try_card(torch: Any, index: int) -> Dict[str, Any]:
    card: Dict[str, Any] = {"index": index, "name": "", "capability": [0, 0], "error": ""}
    try:
        card["name"] = torch.cuda.get_device_name(index)
        card["capability"] = list(torch.cuda.get_device_capability(index))
        ones = torch.ones(64, 64, device=f"cuda:{index}", dtype=torch.float16)
        total = float((ones @ ones).float().sum().item())
        if total != 64.0**3:
            card["error"] = f"a product of ones gave {total}, not {64.0**3}"
    except Exception as error:  # noqa: BLE001 - every error of the card is the result
        card["error"] = f"{type(error).__name__}: {error}"[:500]
    return card
