"""`pipeline merge` as a user types it, over a real sshd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.test_evaluate import SHORT
from tests.e2e.user import User
from tests.lab.sshd import Sshd

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]


@pytest.mark.ssh
def test_a_run_is_merged_once_on_its_host(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd)
    trained = user.run_pipeline("run", "--host", "titan", "--config", "tiny", *SHORT, "--json")
    assert trained.code == 0, trained.err + trained.out
    merged = user.run_pipeline("merge", "--json")
    assert (merged.code, merged.states) == (0, {"merge": "done"}), merged.err + merged.out
    folder = Path(merged.json["merged"])
    record = json.loads((folder / "halfstep-merged.json").read_text())
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= record["files"].keys()
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    again = user.run_pipeline("merge", trained.json["run"], "--json")
    assert (again.code, again.states) == (0, {"merge": "skipped"}), again.err
    assert again.json["merged"] == str(folder)
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    of_merge = user.run_pipeline("merge", merged.json["run"])
    assert of_merge.code == 2
    assert "pipeline merge" in of_merge.err
