"""A repair is undone only if the file is still as the repair left it."""

import hashlib

import pytest

from fixers.setup import tokenizer
from remote.errors import RemoteFault
from tests.fixers.hosts.tokenizer.model_site import FILE, site_of
from tests.fixers.setup_rig import PROJECT, apply, manifest_row, put, remote_content


def test_undoing_the_whole_tree_also_restores_a_tokenizer(host, hub, whole):
    put(host, FILE, whole[:32768])
    apply(host, tokenizer.plan(site_of(host, hub)))
    host.act("tree.undo", {"project": PROJECT.key, "owner": "", "paths": None})
    assert remote_content(host, FILE) == whole[:32768]
    host.act("fix.undo", {"project": PROJECT.key, "fixer": "tokenizer"})
    assert remote_content(host, FILE) == whole[:32768]
    assert manifest_row(host, FILE).fixers == {}


def test_an_edit_made_after_the_plan_is_never_overwritten(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    put(host, FILE, b"mine")
    with pytest.raises(RemoteFault, match="changed after the plan was made"):
        apply(host, plan)
    assert remote_content(host, FILE) == b"mine"


def test_undo_leaves_what_was_edited_after_the_repair(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    apply(host, plan)
    host.write_bytes(f"{PROJECT.tree}/{FILE}", b"mine")
    with pytest.raises(RemoteFault, match="nothing was changed"):
        host.act("fix.undo", plan.changes[0].args)
    assert remote_content(host, FILE) == b"mine"


def test_a_file_that_was_synced_since_the_repair_is_kept_and_repaired_again_if_broken(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    apply(host, plan)
    put(host, FILE, whole[:100])
    assert host.act("fix.undo", plan.changes[0].args)["restored"] == []
    assert remote_content(host, FILE) == whole[:100]
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert remote_content(host, FILE) == whole
    host.act("fix.undo", plan.changes[0].args)
    assert remote_content(host, FILE) == whole[:100]


def test_a_repair_cut_before_the_manifest_was_written_is_finished(host, hub, whole):
    put(host, FILE, whole[:32768])
    site = site_of(host, hub)
    manifest = host.read_bytes(PROJECT.manifest)
    apply(host, tokenizer.plan(site))
    host.write_bytes(PROJECT.manifest, manifest)
    apply(host, tokenizer.plan(site))
    assert manifest_row(host, FILE).installed == hashlib.sha256(whole).hexdigest()
    assert tokenizer.plan(site).findings == ()
