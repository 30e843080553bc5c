"""The entry point of the payload."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.contracts.project_modules import ROOT

MODULE = """
import gc
print("imported", gc.isenabled())
def main(word):
    print(word, gc.isenabled())
    return 7
"""
CALL = """
import gc, sys
from remote.payload import __main__ as payload
payload.VERBS["own"] = "own_verb"
sys.argv = ["payload.pyz", "own", "called"]
print(payload.main(), gc.get_freeze_count() > 0)
"""


def test_nothing_is_collected_while_a_verb_is_imported_and_at_the_exit(tmp_path: Path) -> None:
    """Collections took a quarter of the time of importing torch and transformers."""
    (tmp_path / "own_verb.py").write_text(MODULE)
    command = [sys.executable, "-c", CALL]
    path = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["imported False", "called True", "7 True"]
