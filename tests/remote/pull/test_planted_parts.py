"""Links that a cloned project contains among its records are never written through."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.pull.digests import RECORD, cache_digests, digest_of
from remote.pull.log import mirrored_log


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
    cache_digests(tmp_path, [(adapter, "0" * 64)])
    assert sorted(os.listdir(tmp_path)) == [RECORD, "adapter.json"]


@pytest.mark.parametrize("linked", ["/secret", "../../../secret"])
def test_output_that_is_a_link_is_not_read(tmp_path: Path, linked: str) -> None:
    run, secret = tmp_path / "run", tmp_path / "secret"
    log = run / "jobs/1/output.log"
    log.parent.mkdir(parents=True)
    log.write_text("a token\n")
    assert mirrored_log(run) == log
    log.rename(secret)
    log.symlink_to(f"{tmp_path}{linked}" if linked.startswith("/") else linked)
    assert log.read_text() == "a token\n"
    assert mirrored_log(run) is None
