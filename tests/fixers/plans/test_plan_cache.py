"""Cached findings of a plan are used only for the same bytes and the same target."""

import hashlib
import os
from pathlib import Path

import pytest

import fixers
from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.target import Target
from fixers.plans import plan_cache
from fixers.plans.file_plan import FileOutcome
from fixers.plans.plan_cache import PlanCache, cache_key
from fixers.registry import source_fixers
from remote.protocol.findings import Finding, Severity
from tests.fixers.casebook import AMPERE, TITAN_RTX
from tests.fixers.setup_rig import card

TOLD = (Finding("x", Severity.WARNING, "m", "a.py:1"),)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"bfloat16", b"float16"),
        (b"a bfloat16 b", b"a float16 b"),
        (b"aaaa", b"aa"),
        (b"aa", b"aaaa"),
        (b"ab", b""),
        (b"", b"ab"),
        (b"x\xff\xfey", b"x\xfe\xffy"),
        (b"abab", b"abxab"),
    ],
)
def test_a_cached_outcome_is_restored_byte_for_byte(tmp_path, before, after):
    (tmp_path / "a.py").write_bytes(before)
    outcome = FileOutcome(FileChange("a.py", before, after, {"x": 2}, ("why",)), TOLD)
    first = PlanCache.of(tmp_path, "q")
    first.store("a.py", _sha256(before), outcome)
    first.save()
    second = PlanCache.of(tmp_path, "q")
    digest = _sha256(before)
    assert second.find("a.py", digest, DiskTree(tmp_path)) == outcome
    assert second.find("a.py", digest[::-1], DiskTree(tmp_path)) is None
    assert PlanCache.of(tmp_path, "other").find("a.py", digest, DiskTree(tmp_path)) is None
    stored = (tmp_path / ".halfstep/planned/q.json").read_bytes()
    assert len(before) < 5 or before not in stored


def test_a_cached_outcome_names_the_fixers_in_the_order_in_which_they_ran(tmp_path):
    (tmp_path / "a.py").write_bytes(b"ab")
    first = PlanCache.of(tmp_path, "q")
    first.store("a.py", _sha256(b"ab"), FileOutcome(FileChange("a.py", b"ab", b"b", {"trainer": 1, "bf16": 2})))
    first.save()
    restored = PlanCache.of(tmp_path, "q").find("a.py", _sha256(b"ab"), DiskTree(tmp_path))
    assert list(restored.change.fixers) == ["trainer", "bf16"]


@pytest.mark.parametrize("outcome", [FileOutcome(), FileOutcome(None, TOLD)])
def test_a_cached_outcome_without_a_change_is_used_without_reading_the_file(tmp_path, outcome):
    first = PlanCache.of(tmp_path, "q")
    first.store("gone.py", _sha256(b"x"), outcome)
    first.save()
    digest = _sha256(b"x")
    assert PlanCache.of(tmp_path, "q").find("gone.py", digest, DiskTree(tmp_path)) == outcome


@pytest.mark.parametrize(
    "planted", ["unsigned", "edited", "of another user", "of no user", "signed in another encoding"]
)
def test_SE_a_cache_that_this_user_did_not_write_is_not_used(tmp_path, monkeypatch, planted):
    if planted == "of another user":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    first = PlanCache.of(tmp_path, "q")
    first.store("a.py", _sha256(b"x"), FileOutcome(None, TOLD))
    first.save()
    signature, data = first.file.read_bytes().split(b"\n")
    if planted == "edited":
        data = data.replace(b'"m"', b'"n"')
    if planted in ("of another user", "of no user"):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine" / planted))
    kept = {"unsigned": data, "signed in another encoding": "\u00e9".encode() + b"\n" + data}
    first.file.write_bytes(kept.get(planted, signature + b"\n" + data))
    assert PlanCache.of(tmp_path, "q").rows == {}


def test_without_a_folder_for_the_users_key_planning_continues_uncached(tmp_path, monkeypatch):
    (tmp_path / "config").write_bytes(b"a file")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    each = PlanCache.of(tmp_path, "q")
    each.store("a.py", _sha256(b"x"), FileOutcome(None, TOLD))
    each.save()
    assert not each.file.exists()


def test_unused_entries_are_dropped_and_an_unchanged_cache_is_not_written(tmp_path):
    first = PlanCache.of(tmp_path, "q")
    for name in ("kept.py", "gone.py"):
        first.store(name, _sha256(b"x"), FileOutcome())
    first.save()
    digest = _sha256(b"x")
    unchanged = PlanCache.of(tmp_path, "q")
    unchanged.find("kept.py", digest, DiskTree(tmp_path))
    unchanged.save()
    assert set(PlanCache.of(tmp_path, "q").rows) == {"kept.py", "gone.py"}
    second = PlanCache.of(tmp_path, "q")
    second.find("kept.py", digest, DiskTree(tmp_path))
    second.store("new.py", _sha256(b"y"), FileOutcome())
    second.save()
    assert set(PlanCache.of(tmp_path, "q").rows) == {"kept.py", "new.py"}


def test_the_eight_newest_caches_are_kept_and_hidden_from_git(tmp_path):
    for at in range(10):
        each = PlanCache.of(tmp_path, f"q{at}")
        each.store("a.py", _sha256(b"x"), FileOutcome())
        each.save()
        os.utime(each.file, ns=(at, at))
    assert {file.name for file in (tmp_path / plan_cache.FOLDER).iterdir()} == {f"q{at}.json" for at in range(2, 10)}
    assert (tmp_path / ".halfstep/.gitignore").read_bytes() == b"*\n"


def test_in_a_read_only_folder_planning_continues_uncached(tmp_path):
    (tmp_path / ".halfstep").write_bytes(b"a file")
    each = PlanCache.of(tmp_path, "q")
    each.store("a.py", _sha256(b"x"), FileOutcome())
    each.save()
    assert (tmp_path / ".halfstep").read_bytes() == b"a file"


def test_a_change_anywhere_in_fixers_invalidates_cached_findings():
    every = sorted(Path(fixers.__file__).parent.rglob("*.py"))
    assert plan_cache.code_digest() == hashlib.sha256(b"".join(file.read_bytes() for file in every)).hexdigest()


def test_another_card_package_setting_or_fixer_invalidates_cached_findings():
    targets = [
        Target(),
        Target(TITAN_RTX),
        Target(AMPERE),
        Target(card(assumed=True)),
        Target(TITAN_RTX, {"transformers": "5.0"}),
        Target(TITAN_RTX, {"transformers": "5.1"}),
        Target(TITAN_RTX, {}, {"port": "off"}),
    ]
    asked = [cache_key(source_fixers(), target) for target in targets] + [cache_key(source_fixers()[1:], targets[0])]
    assert len(set(asked)) == len(asked)
    same = Target(TITAN_RTX, {"b": "1", "a": "2"}), Target(TITAN_RTX, {"a": "2", "b": "1"})
    assert cache_key(source_fixers(), same[0]) == cache_key(source_fixers(), same[1])
