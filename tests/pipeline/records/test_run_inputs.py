"""The record of resumed runs is validated, because a cloned project may bring its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.records.run_inputs import read_resumed, write_resumed


@pytest.mark.parametrize("run", ["../../../outside", "/outside", "..", "a/b", "a\nb", ""])
def test_a_recorded_run_whose_name_is_no_folder_name_is_ignored(tmp_path: Path, run: str) -> None:
    path = tmp_path / "resumed.json"
    path.write_text(json.dumps({"0123": run}))
    assert read_resumed(path) == {}


def test_a_resumed_run_is_found_again(tmp_path: Path) -> None:
    write_resumed(tmp_path / "resumed.json", {"0123": "paper_r64.a-0123abcd-2"})
    assert read_resumed(tmp_path / "resumed.json") == {"0123": "paper_r64.a-0123abcd-2"}
