"""Good copies in the cache or the project are used without the hub; broken copies in the cache are repaired."""

import hashlib
import os

import pytest

from fixers.setup import tokenizer
from tests.fixers.hosts.tokenizer.model_site import FILE, REPO, site_of
from tests.fixers.setup_rig import PROJECT, apply, put, remote_content
from tests.lab.hub import COMMIT, git_sha1


def cache(root, data, *, blob=None, name="tokenizer.json", content=None):
    """Return a hub cache in which the snapshot's file is a link to a blob whose name is its digest."""
    model = root / "hub" / ("models--" + REPO.replace("/", "--"))
    (model / "blobs").mkdir(parents=True, exist_ok=True)
    (model / "snapshots" / COMMIT).mkdir(parents=True, exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(COMMIT)
    digest = blob or hashlib.sha256(data).hexdigest()
    (model / "blobs" / digest).write_bytes(data if content is None else content)
    link = model / "snapshots" / COMMIT / name
    link.symlink_to(os.path.relpath(model / "blobs" / digest, link.parent))
    return model / "blobs" / digest


@pytest.mark.parametrize("revision", [COMMIT, None], ids=["pinned", "main"])
def test_a_cached_blob_whose_digest_is_not_its_name_is_downloaded_again(host, hub, whole, tmp_path, revision):
    blob = cache(tmp_path / "hf", whole, content=whole[:32768])
    site = site_of(host, hub, environment={"HF_HOME": str(tmp_path / "hf")}, model={"id": REPO, "revision": revision})
    plan = tokenizer.plan(site)
    assert [change.args["revision"] for change in plan.changes] == [COMMIT]
    apply(host, plan)
    assert blob.read_bytes() == whole
    assert tokenizer.plan(site).findings == ()
    host.act("fix.undo", plan.changes[0].args)
    assert blob.read_bytes() == whole[:32768]


def test_a_cached_companion_with_one_wrong_byte_is_found_by_its_git_digest(host, hub, tmp_path):
    config = hub.repositories[REPO].files["tokenizer_config.json"]
    blob = cache(
        tmp_path / "hf", config, blob=git_sha1(config), name="tokenizer_config.json",
        content=config.replace(b"4096", b"4097"),
    )  # fmt: skip
    site = site_of(host, hub, environment={"HF_HOME": str(tmp_path / "hf")})
    plan = tokenizer.plan(site)
    assert "Git blob" in plan.findings[0].message
    apply(host, plan)
    assert blob.read_bytes() == config


def test_a_good_copy_in_the_cache_is_used_without_querying_the_hub(host, hub, whole, tmp_path):
    cache(tmp_path / "hf", whole)
    put(host, FILE, whole[:32768])
    apply(host, tokenizer.plan(site_of(host, hub, environment={"HF_HOME": str(tmp_path / "hf")})))
    assert remote_content(host, FILE) == whole
    assert hub.requests == []


def test_a_good_copy_in_the_project_is_used_if_the_config_names_its_folder(host, hub, whole):
    put(host, FILE, whole[:32768])
    host.write_bytes(f"{PROJECT.tree}/assets/tokenizer.json", whole)
    apply(host, tokenizer.plan(site_of(host, hub, setting={"source": "assets"}, model={"id": "./model"})))
    assert remote_content(host, FILE) == whole
    assert hub.requests == []


def test_a_file_broken_on_both_machines_with_a_good_copy_in_the_project_is_one_change_of_the_tree(host, hub, whole):
    put(host, FILE, whole[:32768])
    files = {FILE: whole[:32768], "assets/tokenizer.json": whole}
    site = site_of(host, hub, files, setting={"source": "assets"}, model={"id": "./model"})
    (change,) = tokenizer.plan(site).changes
    assert (change.path, change.before, change.after) == (FILE, whole[:32768], whole)
    put(host, FILE, whole)
    assert tokenizer.plan(site).empty
