"""A broken tokenizer file is replaced; one that only differs is reported and kept."""

import hashlib
import os
from pathlib import Path

import pytest

from fixers.setup import tokenizer
from remote.errors import RemoteFault
from remote.protocol.findings import Severity
from tests.fixers.hosts.tokenizer.model_site import FILE, REPO, site_of
from tests.fixers.setup_rig import PROJECT, apply, manifest_row, put, remote_content
from tests.lab.hub import COMMIT, HTML, lfs_pointer

BROKEN = {
    "cut_at_0": (lambda data: b"", "empty"),
    "cut_at_1": (lambda data: data[:1], "truncated"),
    "cut_at_32768": (lambda data: data[:32768], "truncated"),
    "cut_one_byte_before_its_end": (lambda data: data[:-1], "truncated"),
    "lfs_pointer": (lfs_pointer, "lfs pointer"),
    "html_page": (lambda data: HTML, "html"),
    "zeros_in_the_middle": (lambda data: data[:500] + b"\0" * 400 + data[900:], "not json"),
    "another_json": (lambda data: b'{"a": 1}', "not a tokenizer"),
}


@pytest.mark.parametrize(("broken", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_in_the_project_is_replaced_and_can_be_restored(host, hub, whole, broken, words):
    before = broken(whole)
    put(host, FILE, before)
    site = site_of(host, hub)

    plan = tokenizer.plan(site)
    assert [f.severity for f in plan.findings] == [Severity.INFO]
    assert words in plan.findings[0].message
    assert tokenizer.plan(site) == plan
    assert remote_content(host, FILE) == before

    apply(host, plan)
    assert remote_content(host, FILE) == whole
    row = manifest_row(host, FILE)
    assert (row.source, row.installed) == (hashlib.sha256(before).hexdigest(), hashlib.sha256(whole).hexdigest())
    assert row.fixers == {"tokenizer": 1}
    assert tokenizer.plan(site).empty
    assert tokenizer.plan(site).findings == ()

    (change,) = plan.changes
    host.act(change.undo, change.args)
    assert remote_content(host, FILE) == before
    assert manifest_row(host, FILE).installed == hashlib.sha256(before).hexdigest()
    assert manifest_row(host, FILE).fixers == {}


def test_a_good_file_is_kept_without_a_finding(host, hub, whole):
    put(host, FILE, whole)
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty and plan.findings == ()
    assert hub.requests == []


def test_valid_json_that_does_not_load_is_replaced(host, hub, whole):
    put(host, FILE, whole.replace(b'"type":"BPE"', b'"type":"BPQ"', 1))
    plan = tokenizer.plan(site_of(host, hub))
    assert "fails to load" in plan.findings[0].message
    apply(host, plan)
    assert remote_content(host, FILE) == whole


def test_a_file_equal_to_the_hubs_that_does_not_load_needs_a_newer_library(host, hub, whole):
    newer = whole.replace(b'"type":"BPE"', b'"type":"BPQ"', 1)
    hub.repositories[REPO].files["tokenizer.json"] = newer
    put(host, FILE, newer)
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert "library is too old" in plan.findings[0].message
    assert "pip install -U" in plan.findings[0].hint


def test_merges_in_pairs_are_reported_for_an_old_library_and_the_file_is_kept(host, hub, whole):
    put(host, FILE, whole)
    plan = tokenizer.plan(site_of(host, hub, packages={"tokenizers": "0.19.1"}))
    assert plan.empty
    assert "too new for the installed library" in plan.findings[0].message
    assert "tokenizers>=0.20" in plan.findings[0].hint


def test_a_file_that_parses_but_differs_from_the_hubs_is_reported_and_kept(host, hub, whole):
    edited = whole.replace(b'"version":"1.0"', b'"version":"1.0" ', 1)
    assert edited != whole
    put(host, FILE, edited)
    record = f"{COMMIT}\n{hashlib.sha256(whole).hexdigest()}\n1700000000.0\n"
    host.write_bytes(f"{PROJECT.tree}/model/.cache/huggingface/download/tokenizer.json.metadata", record.encode())
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert [(f.severity, "differs" in f.message) for f in plan.findings] == [(Severity.WARNING, True)]


def test_a_file_not_sent_yet_is_judged_from_the_laptop(host, hub, whole):
    plan = tokenizer.plan(site_of(host, hub, files={FILE: whole[:32768]}))
    (change,) = plan.changes
    assert change.args["path"] == f"{host.workdir}/{PROJECT.tree}/{FILE}"


@pytest.mark.parametrize("planted", ["/dev/zero", "FIFO"])
def test_SE_09_a_planted_file_that_never_ends_is_reported_and_not_read(host, hub, tmp_path, planted):
    folder = tmp_path / "planted"
    folder.mkdir()
    if planted == "FIFO":
        os.mkfifo(folder / "tokenizer.json")
    else:
        (folder / "tokenizer.json").symlink_to(planted)
    plan = tokenizer.plan(site_of(host, hub, setting={"repo": REPO, "folders": [str(folder)]}))
    assert any("not a regular file" in finding.message for finding in plan.findings)


@pytest.mark.parametrize("form", ["link in the tree", "link of a folder in the tree", "folder", "planted cache"])
def test_SE_a_file_outside_of_the_tree_and_the_cache_is_reported_with_its_path_and_kept(
    host, hub, whole, tmp_path, form
):
    victim = tmp_path / "victim" / "tokenizer.json"
    victim.parent.mkdir()
    victim.write_bytes(whole[:32768])
    put(host, FILE, whole)
    put(host, "other/tokenizer_config.json", b"{}")
    tree, folders, environment = Path(host.workdir, PROJECT.tree), [], {}
    if form == "link in the tree":
        (tree / "other/tokenizer.json").symlink_to(victim)
    elif form == "link of a folder in the tree":
        (tree / "other/tokenizer.json").symlink_to(tree / "away/tokenizer.json")
        (tree / "away").symlink_to(victim.parent)
    elif form == "folder":
        folders = [str(tmp_path)]
    else:
        environment = {"HF_HUB_CACHE": str(victim.parent)}
        snapshot = victim.parent / f"models--{REPO.replace('/', '--')}/snapshots/{COMMIT}"
        snapshot.mkdir(parents=True)
        (snapshot / "tokenizer.json").symlink_to(victim)
    site = site_of(host, hub, setting={"folders": folders, "source": "model"}, environment=environment)
    plan = tokenizer.plan(site)
    assert plan.empty and victim.read_bytes() == whole[:32768]
    assert [finding.severity for finding in plan.findings] == [Severity.ERROR]
    assert f"{victim} is outside of the project's folder and the hub cache" in plan.findings[0].message


@pytest.mark.parametrize("target", ["shell", "train.py", "blob", "snapshot"])
def test_SE_a_request_to_replace_another_file_is_refused_by_the_host(host, hub, whole, tmp_path, target):
    put(host, FILE, whole[:32768])
    (change,) = tokenizer.plan(site_of(host, hub)).changes
    model = Path(host.workdir, "hf/hub", f"models--{REPO.replace('/', '--')}")
    victim = {
        "shell": tmp_path / ".bashrc",
        "train.py": Path(host.workdir, PROJECT.tree, "train.py"),
        "blob": model / "blobs" / ("a" * 64),
        "snapshot": model / "snapshots" / ("b" * 40) / "tokenizer.json",
    }[target]
    victim.parent.mkdir(parents=True, exist_ok=True)
    victim.write_bytes(b"mine")
    path = Path(host.workdir, PROJECT.tree, "model/merges.txt")
    path.symlink_to(victim)
    request = {**change.args, "path": str(path), "expected": hashlib.sha256(b"mine").hexdigest()}
    with pytest.raises(RemoteFault, match="was not written") as refused:
        host.act(change.op, request)
    assert refused.value.where == str(victim) and victim.read_bytes() == b"mine"
