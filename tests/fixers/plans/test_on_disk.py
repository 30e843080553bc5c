"""Rewriting local files: file modes, kept originals, and refusals."""

import fcntl
import json
import os

import pytest

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from remote.errors import Busy, FixRefused
from remote.protocol.findings import Finding, Severity

UNDO = ".halfstep/undo"


def change(before, after, path="a.py"):
    return FileChange(path, before, after, {"x": 1})


def plan(*changes):
    return Plan((), changes)


def originals(root):
    return {file.read_bytes() for file in (root / UNDO / "originals").iterdir()}


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o777, 0o4755, 0o2775, 0o6777])
def test_SE_a_file_keeps_its_permissions_but_not_setuid_and_leaves_nothing_beside_it(tmp_path, mode):
    file = tmp_path / "a.py"
    file.write_bytes(b"1")
    file.chmod(mode)
    apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"2", mode & 0o777)
    assert sorted(os.listdir(tmp_path)) == [".halfstep", "a.py"]
    file.chmod(mode)
    undo_on_disk(tmp_path)
    assert (file.read_bytes(), file.stat().st_mode & 0o7777) == (b"1", mode & 0o777)


@pytest.mark.root
@pytest.mark.parametrize(("mode", "kept"), [(0o777, 0o755), (0o664, 0o644), (0o6775, 0o755)])
def test_SE_a_file_of_another_user_that_is_replaced_can_be_written_only_by_its_new_owner(tmp_path, mode, kept):
    file = tmp_path / "a.py"
    file.write_bytes(b"1")
    os.chown(file, 65534, 65534)
    file.chmod(mode)
    apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    status = file.stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (0, kept)


def test_a_plan_for_the_host_changes_no_local_file(tmp_path):
    assert apply_to_disk(tmp_path, plan(HostChange("x", "s", "op"))) == ()
    assert undo_on_disk(tmp_path).restored == ()
    assert os.listdir(tmp_path) == []


def test_originals_are_hidden_from_git_and_only_one_fix_writes_at_a_time(tmp_path):
    (tmp_path / "a.py").write_bytes(b"1")
    assert apply_to_disk(tmp_path, plan(HostChange("x", "s", "op"), change(b"1", b"2"))) == ("a.py",)
    assert (tmp_path / ".halfstep/.gitignore").read_bytes() == b"*\n"
    assert originals(tmp_path) == {b"1"}


def test_undo_reverts_any_number_of_fixes_in_one_step(tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(b"1")
    for before, after in ((b"1", b"2"), (b"2", b"3"), (b"3", b"4")):
        apply_to_disk(tmp_path, plan(change(before, after)))
    assert originals(tmp_path) == {b"1"}
    assert undo_on_disk(tmp_path).restored == ("a.py",)
    assert file.read_bytes() == b"1"
    assert originals(tmp_path) == set()
    assert json.loads((tmp_path / UNDO / "journal.json").read_bytes()) == {"steps": {}}


def test_undo_of_a_fix_after_an_edit_restores_the_edit(tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(b"1")
    apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    file.write_bytes(b"mine")
    apply_to_disk(tmp_path, plan(change(b"mine", b"fixed")))
    undo_on_disk(tmp_path)
    assert file.read_bytes() == b"mine"


def test_undo_accepts_a_file_that_was_restored_already(tmp_path):
    file = tmp_path / "a.py"
    file.write_bytes(b"1")
    apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    file.write_bytes(b"1")
    undone = undo_on_disk(tmp_path)
    assert (undone.restored, undone.findings) == ((), ())
    assert originals(tmp_path) == set()


@pytest.mark.parametrize(
    ("left", "what"), [(b"mine", "was edited after the fix"), (None, "no longer exists")], ids=["edited", "gone"]
)
def test_a_file_that_was_edited_since_is_reported_and_its_original_kept(tmp_path, left, what):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_bytes(name.encode())
    apply_to_disk(tmp_path, plan(change(b"a.py", b"2"), change(b"b.py", b"2", "b.py")))
    if left is None:
        (tmp_path / "a.py").unlink()
    else:
        (tmp_path / "a.py").write_bytes(left)
    undone = undo_on_disk(tmp_path)
    message = f"the file {what}; its fix was not undone"
    hint = "the original is in .halfstep/undo/originals"
    assert undone.findings == (Finding("edited-since-fix", Severity.WARNING, message, "a.py", hint),)
    assert undone.restored == ("b.py",)
    assert originals(tmp_path) == {b"a.py"}
    assert set(json.loads((tmp_path / UNDO / "journal.json").read_bytes())["steps"]) == {"a.py"}


def test_a_file_that_is_gone_or_other_than_planned_is_refused(tmp_path):
    with pytest.raises(FixRefused) as refusal:
        apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    assert (refusal.value.where, refusal.value.hint) == ("a.py", "pipeline fix")
    assert refusal.value.message == "the file changed after its fix was planned"


def test_a_record_that_cannot_be_read_is_refused_with_its_place(tmp_path):
    (tmp_path / "a.py").write_bytes(b"1")
    (tmp_path / UNDO).mkdir(parents=True)
    (tmp_path / UNDO / "journal.json").write_bytes(b"{")
    with pytest.raises(FixRefused, match="the record of earlier fixes cannot be read") as refusal:
        apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    assert refusal.value.where == str(tmp_path / UNDO / "journal.json")
    assert (tmp_path / "a.py").read_bytes() == b"1"
    with pytest.raises(FixRefused):
        undo_on_disk(tmp_path)


def test_a_running_fix_excludes_another_fix_and_undo(tmp_path):
    (tmp_path / "a.py").write_bytes(b"1")
    apply_to_disk(tmp_path, plan(change(b"1", b"2")))
    with (tmp_path / UNDO / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for act in (lambda: apply_to_disk(tmp_path, plan(change(b"2", b"3"))), lambda: undo_on_disk(tmp_path)):
            with pytest.raises(Busy) as refusal:
                act()
            assert refusal.value.where == str(tmp_path)
    assert (tmp_path / "a.py").read_bytes() == b"2"
