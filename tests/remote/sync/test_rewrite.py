"""Rewriting the host's tree: all changes or none, undo, and cooperation with sync."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from remote.errors import RemoteFault, SyncRefused
from remote.protocol.exits import ExitCode
from remote.sync.rewrite import plan_rewrites, rewrite_tree, undo_rewrites
from tests.remote.sync.sync_bench import contents

FIXED = b"dtype = 'float16'\n"


@dataclass(frozen=True)
class Change:
    path: str
    before: bytes
    after: bytes
    fixers: dict[str, int]


def change(bench, path: str = "src/model.py", after: bytes = FIXED, **fixers: int) -> Change:
    return Change(path, (bench.root / path).read_bytes(), after, fixers or {"bf16-to-fp16": 1})


def fix(bench, *changes):
    scan, tree = bench.scan(), bench.survey()
    rewrites = plan_rewrites(scan, tree, changes)
    return rewrites, rewrite_tree(bench.host, scan, rewrites) if rewrites else tree


def test_a_fixed_tree_stays_fixed_over_the_next_sync(bench):
    bench.sync()
    wanted = change(bench)
    rewrites, tree = fix(bench, wanted)
    assert len(rewrites) == 1 and not tree.deviations and set(tree.fixed) == {"src/model.py"}
    assert (bench.tree / "src/model.py").read_bytes() == FIXED
    assert bench.survey() == tree
    assert bench.sync().sent == () and fix(bench, wanted)[0] == ()
    assert (bench.tree / "src/model.py").read_bytes() == FIXED


def test_a_local_change_is_sent_unfixed_and_fixed_again(bench):
    bench.sync()
    fix(bench, change(bench))
    bench.write({"src/model.py": "dtype = 'bfloat16'  # newer\n"})
    report = bench.sync()
    assert report.sent == ("src/model.py",) and report.report.ok and not report.tree.fixed
    assert contents(bench.tree) == contents(bench.root)
    _, tree = fix(bench, change(bench, after=b"newer and fixed\n"))
    assert (bench.tree / "src/model.py").read_bytes() == b"newer and fixed\n" and not tree.deviations


def test_a_better_fixer_rewrites_what_an_older_one_had_rewritten(bench):
    bench.sync()
    fix(bench, change(bench))
    _, tree = fix(bench, change(bench, after=b"better\n", **{"bf16-to-fp16": 2}))
    assert (bench.tree / "src/model.py").read_bytes() == b"better\n"
    assert tree.fixed["src/model.py"].fixers == {"bf16-to-fp16": 2}


def test_a_fixer_that_is_turned_off_leaves_the_file_as_it_was_sent(bench):
    bench.sync()
    fix(bench, change(bench))
    _, tree = fix(bench)
    assert contents(bench.tree) == contents(bench.root) and not tree.fixed and not tree.deviations


def test_a_sync_keeps_a_file_that_a_fixer_created(bench):
    bench.sync()
    made = Change("sitecustomize.py", b"", b"import this\n", {"shim": 1})
    _, tree = fix(bench, made)
    assert (bench.tree / "sitecustomize.py").read_bytes() == b"import this\n" and not tree.deviations
    assert bench.sync().sent == () and (bench.tree / "sitecustomize.py").exists()
    assert not undo_rewrites(bench.host, bench.scan()).fixed
    assert contents(bench.tree) == contents(bench.root)


def test_undo_restores_what_was_sent(bench):
    bench.sync()
    fix(bench, change(bench), change(bench, "train.py"))
    assert (bench.tree / "train.py").stat().st_mode & 0o777 == 0o755
    tree = undo_rewrites(bench.host, bench.scan(), ["train.py"])
    assert set(tree.fixed) == {"src/model.py"}
    tree = undo_rewrites(bench.host, bench.scan())
    assert not tree.fixed and not tree.deviations and contents(bench.tree) == contents(bench.root)
    assert not list((bench.home / "undo/tree").iterdir())


def test_an_edit_on_the_host_stops_every_rewrite(bench):
    bench.sync()
    (bench.tree / "src/model.py").write_text("mine\n")
    with pytest.raises(RemoteFault, match="edited on the host") as refused:
        fix(bench, change(bench, "train.py"), change(bench))
    assert refused.value.exit_code == ExitCode.FIXER
    assert (bench.tree / "src/model.py").read_text() == "mine\n"
    assert (bench.tree / "train.py").read_bytes() == (bench.root / "train.py").read_bytes()


def test_a_fix_of_another_version_of_the_file_is_refused(bench):
    bench.sync()
    with pytest.raises(RemoteFault, match="changed on the host after the fix was planned"):
        fix(bench, Change("src/model.py", b"something else", FIXED, {"x": 1}))
    assert contents(bench.tree) == contents(bench.root)


@pytest.mark.parametrize("path", ["../out.py", "/tmp/out.py", "a/../../out.py", "", "a//b", "./a"])
def test_a_rewrite_cannot_leave_the_tree(bench, path):
    bench.sync()
    with pytest.raises(SyncRefused, match="was not written"):
        fix(bench, Change(path, b"", b"x", {"x": 1}))
    assert contents(bench.tree) == contents(bench.root)
