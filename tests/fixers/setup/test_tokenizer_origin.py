"""Which model a tokenizer file belongs to, and which files are examined, as tables."""

import json

import pytest

from fixers.frame.site import Site
from fixers.setup.tokenizer import Origin, laptop_files, origin_of, repo_in_config_json, repository_of
from fixers.sources.unparsable import LARGEST_TEXT
from remote.protocol.tokenizer_files import Fault, TokenizerFile, digest_of
from tests.fixers.setup_rig import PROJECT, MemoryTree

TREE = f"/home/fake/halfstep/{PROJECT.tree}"
FILE = "model/tokenizer.json"
REMOTE = f"{TREE}/{FILE}"
REPO = "lab/speech"


@pytest.mark.parametrize(
    ("config", "setting", "origin"),
    [
        ({}, None, Origin()),
        ({"model": None}, "auto", Origin()),
        ({"model": {"id": REPO}}, "auto", Origin(REPO)),
        ({"model": {"id": REPO, "revision": "r"}}, None, Origin(REPO, "r")),
        ({"model": {"id": "./model", "revision": "r"}}, None, Origin("", "r")),
        ({"model": {"id": "/data/model"}}, None, Origin()),
        ({"model": {"id": "one-word"}}, None, Origin()),
        ({"model": {"id": "a/b/c"}}, None, Origin()),
        ({"model": {"id": "tiny/phi4"}}, None, Origin()),
        ({"model": {"id": "models/speech"}}, None, Origin()),
        ({"model": {"id": "models/spee"}}, None, Origin("models/spee")),
        ({"model": {"id": REPO, "revision": "r"}}, {"revision": "w"}, Origin(REPO, "w")),
        ({"model": {"id": REPO}}, {"repo": "lab/other"}, Origin("lab/other", certain=True)),
        ({"model": {"id": "./m"}}, {"repo": "lab/other"}, Origin("lab/other", certain=True)),
        ({"model": {"id": REPO}}, {"source": "assets/"}, Origin(REPO, source="assets")),
        ({"model": {"id": REPO}}, {"repo": None, "source": None}, Origin(REPO)),
    ],
)
def test_the_config_determines_the_origin_of_a_good_copy(config, setting, origin):
    settings = {} if setting is None else {"tokenizer": setting}
    assert origin_of(Site(MemoryTree({"models/speech/config.json": b"{}"}), config=config, settings=settings)) == origin


def named(repo):
    return json.dumps({"_name_or_path": repo}).encode()


@pytest.mark.parametrize(
    ("files", "repo"),
    [
        ({}, ""),
        ({"m/config.json": named("a/b")}, "a/b"),
        ({"m/config.json": b'{"name_or_path": "a/b"}'}, "a/b"),
        ({"m/tokenizer_config.json": named("a/b")}, "a/b"),
        ({"m/config.json": named("a/b"), "m/tokenizer_config.json": named("c/d")}, "a/b"),
        ({"m/config.json": named("./b"), "m/tokenizer_config.json": named("c/d")}, "c/d"),
        ({"m/config.json": b"{", "m/tokenizer_config.json": named("c/d")}, "c/d"),
        ({"m/config.json": b"[" * 100_000, "m/tokenizer_config.json": named("c/d")}, "c/d"),
        ({"m/config.json": b'{"a":' * 100_000}, ""),
        ({"m/config.json": named("tiny/phi4")}, ""),
        ({"m/config.json": named("/data/b")}, ""),
        ({"m/config.json": named(3)}, ""),
        ({"m/config.json": b"[]"}, ""),
        ({"config.json": named("a/b"), "n/config.json": named("a/b")}, ""),
    ],
)
def test_the_model_of_a_tokenizer_is_the_hub_id_in_the_config_beside_it(files, repo):
    assert repo_in_config_json(MemoryTree(files), "m") == repo


BESIDE = {"model/config.json": named("lab/beside")}


@pytest.mark.parametrize(
    ("files", "origin", "known", "whose"),
    [
        ({}, Origin(REPO, "r"), {}, (REPO, "r")),
        ({}, Origin(REPO, "r"), {"revision": "f"}, (REPO, "f")),
        (BESIDE, Origin(REPO, "r"), {}, ("lab/beside", "")),
        (BESIDE, Origin(REPO, "r"), {"revision": "f"}, ("lab/beside", "f")),
        (BESIDE, Origin("lab/beside", "r"), {}, ("lab/beside", "r")),
        (BESIDE, Origin(REPO, "r", certain=True), {}, (REPO, "r")),
        (BESIDE, Origin(REPO, "r"), {"repo": "c/d", "revision": "f"}, ("c/d", "f")),
        (BESIDE, Origin(REPO, "r"), {"repo": "c/d"}, ("c/d", "")),
    ],
)
def test_the_model_of_a_file_follows_from_its_cache_path_the_files_beside_it_or_the_config(files, origin, known, whose):
    site = Site(MemoryTree(files))
    assert repository_of(site, origin, TokenizerFile(FILE, FILE, 1, "aa", **known)) == whose
    assert repository_of(site, origin, TokenizerFile(REMOTE, REMOTE, 1, "aa", **known), TREE) == whose


def test_a_tokenizer_at_the_top_of_the_project_belongs_to_the_model_beside_it():
    site = Site(MemoryTree({"config.json": named("lab/top")}))
    assert repository_of(site, Origin(), TokenizerFile("tokenizer.json", "x", 1, "aa")) == ("lab/top", "")
    file = TokenizerFile(f"{TREE}/tokenizer.json", "x", 1, "aa")
    assert repository_of(site, Origin(), file, TREE) == ("lab/top", "")


def test_the_laptops_files_are_those_beside_a_tokenizer():
    merges = b'{"model": {"merges": [["a", "b"]]}}'
    files = {
        FILE: merges,
        "model/merges.txt": b"a b\n",
        "model/other.json": b"{}",
        "data/vocab.json": b"{}",
        "only/tokenizer_config.json": b"",
    }
    assert laptop_files(Site(MemoryTree(files)), "/r") == (
        TokenizerFile("/r/model/merges.txt", "/r/model/merges.txt", 4, digest_of(b"a b\n").sha256),
        TokenizerFile(f"/r/{FILE}", f"/r/{FILE}", len(merges), digest_of(merges).sha256, paired_merges=True),
        TokenizerFile(
            "/r/only/tokenizer_config.json",
            "/r/only/tokenizer_config.json",
            0,
            digest_of(b"").sha256,
            Fault("empty", "0 bytes, none of them text"),
        ),
    )


def test_pairs_in_other_tokenizer_files_are_not_taken_for_merges():
    files = {"m/tokenizer_config.json": b'{"merges": [["a", "b"]]}'}
    assert [file.paired_merges for file in laptop_files(Site(MemoryTree(files)))] == [False]


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_SE_a_settings_file_that_is_too_large_names_no_repository(name: str) -> None:
    text = b'{"_name_or_path": "acme/audio"}'
    assert repo_in_config_json(MemoryTree({f"m/{name}": text}), "m") == "acme/audio"
    assert repo_in_config_json(MemoryTree({f"m/{name}": text + b" " * LARGEST_TEXT}), "m") == ""
