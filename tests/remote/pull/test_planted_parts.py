"""Links that a cloned project contains among its records are never written through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.pull.digests import RECORD, cache_digests, digest_of


@pytest.mark.parametrize("name", [f"{RECORD}.part", RECORD])
@pytest.mark.parametrize("exists", [True, False])
def test_digests_are_not_written_through_a_link(tmp_path: Path, name: str, exists: bool) -> None:
    run, victim = tmp_path / "run", tmp_path / ".bashrc"
    run.mkdir()
    if exists:
        victim.write_text("mine\n")
    (run / name).symlink_to("../.bashrc")
    adapter = run / "$(touch pwned).json"
    adapter.write_bytes(b"{}")
    cache_digests(run, [(adapter, "0" * 64)])
    assert victim.exists() == exists and (not exists or victim.read_text() == "mine\n")
    assert digest_of(run, adapter) == "0" * 64, "the cache is used"
    assert not (run / RECORD).is_symlink()


def test_a_cache_that_cannot_be_replaced_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / RECORD).mkdir()
    adapter = tmp_path / "adapter.json"
    adapter.write_bytes(b"{}")
    with pytest.raises(OSError, match="directory"):
        cache_digests(tmp_path, [(adapter, "0" * 64)])
    assert sorted(os.listdir(tmp_path)) == [RECORD, "adapter.json"]
