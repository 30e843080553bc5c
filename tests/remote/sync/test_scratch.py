"""The proof's copy of the project, on hosts with a current tree, an older tree or no tree."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.payload.request.refusal import Refusal
from remote.payload.tree.materialise import materialise
from remote.sync.scratch import remove_scratch, send_scratch
from tests.remote.sync.sync_bench import contents
from tests.remote.sync.test_rewrite import FIXED, change, fix


def scratch(bench, *changes) -> Path:
    return Path(send_scratch(bench.host, bench.scan(), bench.survey(), changes, "nonce1"))


def test_a_host_without_a_tree_gets_all_files_and_keeps_none(bench):
    place = scratch(bench, change(bench))
    wanted = contents(bench.root)
    found = contents(place)
    assert {p: d for p, d in found.items() if p != "src/model.py"} == {
        p: d for p, d in wanted.items() if p != "src/model.py"
    }
    assert (place / "src/model.py").read_bytes() == FIXED and not bench.tree.exists()
    remove_scratch(bench.host, bench.scan(), "nonce1")
    assert not (bench.workdir / "projects").exists()


@pytest.mark.parametrize("synced", [False, True])
def test_a_project_without_a_file_has_an_empty_remote_folder(bench, synced):
    shutil.rmtree(bench.root)
    bench.root.mkdir()
    if synced:
        bench.sync()
    assert list(scratch(bench).iterdir()) == []


def test_files_that_the_remote_tree_has_are_copied_there_and_the_rest_is_sent(bench, monkeypatch):
    bench.sync()
    fix(bench, change(bench))
    (bench.tree / "venv").mkdir()
    bench.write({"new.py": "x = 1\n"})
    before = contents(bench.tree)
    sent = []
    real = bench.host.send
    monkeypatch.setattr(
        bench.host, "send", lambda op, args, chunks, **o: real(op, args, (sent.append(c) or c for c in chunks))
    )
    place = scratch(bench, change(bench))
    assert sum(map(len, sent)) < 1500
    assert (place / "src/model.py").read_bytes() == FIXED and (place / "new.py").exists()
    assert os.readlink(place / "venv") == str(bench.tree / "venv")
    assert contents(bench.tree) == before


def test_a_tree_that_was_edited_meanwhile_is_not_used(bench):
    bench.sync()
    scan, tree = bench.scan(), bench.survey()
    (bench.tree / "train.py").write_text("mine")
    place = Path(send_scratch(bench.host, scan, tree, (), "nonce2"))
    assert contents(place) == contents(bench.root)


@pytest.mark.parametrize("nonce", ["../x", "", "a/b", ".", "x" * 100])
def test_a_scratch_folder_has_a_plain_name(bench, nonce):
    with pytest.raises(RemoteFault, match="is not the name of a scratch folder"):
        send_scratch(bench.host, bench.scan(), bench.survey(), (), nonce)


def test_a_job_gets_a_copy_of_the_project_and_links_to_everything_else(bench, tmp_path):
    bench.sync()
    (bench.tree / "venv/bin").mkdir(parents=True)
    (bench.tree / "src/cache").mkdir()
    (bench.tree / "src/__pycache__").mkdir()
    os.symlink("src/model.py", bench.root / "model.py")
    bench.sync()
    copy = tmp_path / "run/code"
    materialise(str(bench.workdir), bench.scan().project, str(copy))
    found = contents(copy)
    assert found.pop("venv") == f"-> {bench.tree / 'venv'}"
    assert found.pop("src/cache") == f"-> {bench.tree / 'src/cache'}"
    assert found == contents(bench.root)
    bench.write({"train.py": "later\n"})
    bench.sync()
    assert (copy / "train.py").read_text() != "later\n"


def test_a_tree_is_not_copied_while_it_is_being_changed(bench, tmp_path, monkeypatch):
    bench.sync()
    from remote.payload.files.lock import take_lock  # noqa: PLC0415
    from remote.payload.tree import materialise as module  # noqa: PLC0415

    monkeypatch.setattr(module, "WAIT_S", 0.05)
    with take_lock(str(bench.home / "lock"), "a sync"), pytest.raises(Refusal, match="a sync"):
        materialise(str(bench.workdir), bench.scan().project, str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_a_file_that_fixers_created_on_the_host_is_taken_from_the_host(bench):
    bench.write({"tokenizer.json": '{"cut off'})
    bench.sync()
    whole = b'{"whole": true}'
    fix(bench, change(bench, "tokenizer.json", whole, tokenizer=1), change(bench, after=b"older\n"))
    scan, tree = bench.scan(), bench.survey()
    place = Path(send_scratch(bench.host, scan, tree, [change(bench)], "nonce3", host_fixers={"tokenizer"}))
    assert (place / "tokenizer.json").read_bytes() == whole
    assert (place / "src/model.py").read_bytes() == FIXED
    bench.write({"tokenizer.json": '{"another'})
    later = Path(send_scratch(bench.host, bench.scan(), tree, [change(bench)], "nonce4", host_fixers={"tokenizer"}))
    assert (later / "tokenizer.json").read_bytes() == b'{"another'


def test_scratch_folders_of_a_killed_verb_are_deleted_by_the_next(bench):
    place = scratch(bench, change(bench))
    os.kill(bench.host.greeting["pid"], signal.SIGKILL)
    bench.close()
    assert place.exists()
    other = Path(send_scratch(bench.host, bench.scan(), bench.survey(), (), "nonce2"))
    assert other.exists() and not place.parent.exists()
    remove_scratch(bench.host, bench.scan(), "nonce2")
    assert not (bench.home / "scratch").exists()


def test_the_scratch_folder_of_a_running_verb_is_kept(bench):
    place = scratch(bench, change(bench))
    host = bench.other_host()
    other = Path(send_scratch(host, bench.scan(), bench.survey(), (), "nonce2"))
    assert place.exists() and other.exists()
    host.close()
