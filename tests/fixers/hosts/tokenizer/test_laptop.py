"""A tokenizer on the laptop is downloaded for the model beside it."""

import json

import pytest

from fixers.frame.site import Site
from fixers.setup import tokenizer
from tests.fixers.hosts.tokenizer.model_site import FILE, REPO, site_of
from tests.fixers.setup_rig import MemoryTree, put
from tests.lab.hub import COMMIT


@pytest.fixture
def laptop_environment(hub, monkeypatch, tmp_path):
    for name, value in {**hub.environment, "HF_HOME": str(tmp_path / "hf")}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("laptop_environment")
def test_a_tokenizer_on_the_laptop_is_fetched_to_the_laptop(hub, whole):
    before = whole[:32768]
    site = Site(MemoryTree({FILE: before}), config={"model": {"id": REPO, "revision": COMMIT}})
    (change,) = tokenizer.plan(site).changes
    assert (change.path, change.before, change.after) == (FILE, before, whole)
    assert tokenizer.plan(Site(MemoryTree({FILE: whole}), config=site.config)).findings == ()


@pytest.mark.usefixtures("laptop_environment")
def test_the_config_beside_a_tokenizer_determines_its_repository(host, hub, whole):
    files = {FILE: whole[:100], "model/config.json": json.dumps({"_name_or_path": REPO}).encode()}
    (change,) = tokenizer.plan(Site(MemoryTree(files))).changes
    assert change.after == whole
    put(host, FILE, whole[:100])
    (planned,) = tokenizer.plan(site_of(host, hub, files, model={"id": "other/model"})).changes
    assert planned.args["repo"] == REPO
    certain = tokenizer.plan(site_of(host, hub, files, setting={"repo": "lab/elsewhere"}))
    assert "lab/elsewhere" in certain.findings[0].message
