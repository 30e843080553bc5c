"""Sync plans, as a table without a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.project.scan import Scan
from remote.protocol.findings import Report
from remote.protocol.tree import Deviation, Manifest, Row, TreeSurvey
from remote.sync.plan import plan_sync


def row(source: str, *, installed: str = "", mode: int = 0o644, link: str = "", **fixers: int) -> Row:
    return Row(source, installed or source, mode, 10, link, fixers)


def scan(**rows: Row) -> Scan:
    return Scan(Path("/p"), "p-1", "me", Manifest(rows), Report())


def tree(base: dict[str, Row], *deviations: Deviation, **more: object) -> TreeSurvey:
    manifest = Manifest(base)
    return TreeSurvey(True, manifest.source_digest(), manifest.installed_digest(), len(base), deviations, **more)


def edited(path: str, kind: str = "edited") -> Deviation:
    return Deviation(path, kind, "z")


A, B, FIXED = row("a"), row("b"), row("a", installed="f", fix=1)


@pytest.mark.parametrize(
    ("local", "base", "deviations", "send", "delete", "left"),
    [
        ({"x": A}, {}, (), ["x"], [], []),
        ({"x": A}, {"x": A}, (), [], [], []),
        ({"x": B}, {"x": A}, (), ["x"], [], []),
        ({}, {"x": A}, (), [], ["x"], []),
        ({"x": A}, {"x": FIXED}, (), [], [], []),
        ({"x": B}, {"x": FIXED}, (), ["x"], [], []),
        ({"x": A}, {"x": A}, (edited("x"),), [], [], ["x"]),
        ({"x": B}, {"x": A}, (edited("x"),), [], [], ["x"]),
        ({}, {"x": A}, (edited("x"),), [], [], ["x"]),
        ({"x": A}, {"x": A}, (edited("x", "not-regular"),), [], [], ["x"]),
        ({"x": A}, {"x": A}, (edited("x", "missing"),), ["x"], [], []),
        ({"x": A}, {"x": A}, (edited("x", "damaged"),), ["x"], [], []),
        ({"x": row("l", link="a")}, {"x": row("l", link="b")}, (), ["x"], [], []),
        ({}, {"x": row("", installed="f", fix=1)}, (), [], [], []),
    ],
)
def test_the_plan_follows_from_the_local_the_sent_and_the_remote_version(local, base, deviations, send, delete, left):
    plan = plan_sync(scan(**local), tree(base, *deviations), Manifest(base))
    assert (list(plan.send), list(plan.delete), [d.path for d in plan.edited]) == (send, delete, left)
    assert [finding.check for finding in plan.report.findings] == ["edited-on-host"] * len(left)


def test_force_overwrites_what_was_edited_on_the_host():
    base = {"x": A, "y": A}
    survey = tree(base, edited("x"), edited("y"))
    plan = plan_sync(scan(x=A), survey, Manifest(base), force=True)
    assert (list(plan.send), plan.delete, plan.edited) == (["x"], ("y",), ())


def test_a_changed_mode_sends_no_bytes():
    plan = plan_sync(scan(x=row("a", mode=0o755)), tree({"x": FIXED}), Manifest({"x": FIXED}))
    assert list(plan.modes) == ["x"] and not plan.send and plan.send_bytes == 0 and not plan.empty


def test_equal_contents_are_sent_once():
    plan = plan_sync(scan(x=A, y=A, z=B), tree({}), Manifest({}))
    assert plan.send_bytes == 20


@pytest.mark.parametrize(
    ("count", "going", "found"), [(20, 20, False), (21, 11, True), (21, 10, False), (40, 20, False)]
)
def test_most_of_a_tree_is_not_deleted_without_force(count, going, found):
    base = {f"f{i}": A for i in range(count)}
    kept = {f"f{i}": A for i in range(going, count)}
    plan = plan_sync(scan(**kept), tree(base), Manifest(base))
    assert [finding.check for finding in plan.report.findings] == ["mass-delete"] * found
    assert plan_sync(scan(**kept), tree(base), Manifest(base), force=True).report.ok


@pytest.mark.parametrize(("data", "found"), [("data", False), ("", True), ("dat", True)])
def test_files_that_are_sent_separately_from_now_on_are_not_a_mass_deletion(data, found):
    base = {**{f"data/{i}.wav": A for i in range(40)}, "train.py": B}
    without = replace(scan(**{"train.py": B}), data_link=data)
    plan = plan_sync(without, tree(base), Manifest(base))
    assert len(plan.delete) == 40
    assert [finding.check for finding in plan.report.findings] == ["mass-delete"] * found
