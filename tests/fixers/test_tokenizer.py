"""The tokenizer fixer against a hub on loopback, through the real agent and the real huggingface_hub."""

import hashlib
import json
import os
import sys

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from fixers import tokenizer
from fixers.site import Site
from remote.errors import RemoteFault
from remote.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import PROJECT, MemoryTree, apply, lies_there, manifest_row, put, site_at, survey_of
from tests.lab.hub import COMMIT, HTML, Fault, Hub, Repository, git_sha1, lfs_pointer, serve

REPO = "lab/speech-model"


@pytest.fixture(scope="session")
def whole():
    """A real byte-level BPE tokenizer.json, a little over 40 kB, so that a cut at 32,768 lies inside it."""
    words = [f"phone{i} mispronounced{i * 7} café{i} {chr(0x4E00 + i)}" for i in range(900)]
    made = Tokenizer(BPE())
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(vocab_size=2500, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator(words, trainer)
    data = made.to_str().encode()
    assert len(data) > 40_000
    return data


@pytest.fixture
def hub(whole):
    config = b'{"model_max_length": 4096}\n'
    repository = Repository({"tokenizer.json": whole, "tokenizer_config.json": config}, frozenset({"tokenizer.json"}))
    with serve(Hub({REPO: repository})) as served:
        yield served


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(tmp_path / "host"))
    yield agent
    agent.close()


def site_of(host, hub, files=None, *, wish=None, environment=None, model=None, packages=None):
    known = {**hub.environment, "HF_HOME": f"{host.workdir}/hf", **(environment or {})}
    interpreter = Interpreter(sys.executable, packages=packages or {"tokenizers": "0.23.1"})
    wishes = {"tokenizer": wish} if wish else {}
    config = {"model": model or {"id": REPO, "revision": COMMIT}}
    survey = survey_of(interpreter=interpreter)
    return site_at(host, files, survey=survey, environment=known, wishes=wishes, config=config)


FILE = "model/tokenizer.json"

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
def test_a_broken_file_in_the_project_is_replaced_and_can_be_put_back(host, hub, whole, broken, words):
    before = broken(whole)
    put(host, FILE, before)
    site = site_of(host, hub)

    plan = tokenizer.plan(site)
    assert [f.severity for f in plan.findings] == [Severity.INFO]
    assert words in plan.findings[0].message
    assert tokenizer.plan(site) == plan
    assert lies_there(host, FILE) == before

    apply(host, plan)
    assert lies_there(host, FILE) == whole
    row = manifest_row(host, FILE)
    assert (row.here, row.there) == (hashlib.sha256(before).hexdigest(), hashlib.sha256(whole).hexdigest())
    assert row.fixers == {"tokenizer": 1}
    assert tokenizer.plan(site).empty
    assert tokenizer.plan(site).findings == ()

    (change,) = plan.changes
    host.act(change.undo, change.args)
    assert lies_there(host, FILE) == before
    assert manifest_row(host, FILE).there == hashlib.sha256(before).hexdigest()
    assert manifest_row(host, FILE).fixers == {}


def test_a_whole_file_is_left_alone_without_a_word(host, hub, whole):
    put(host, FILE, whole)
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty and plan.findings == ()
    assert hub.requests == []


@pytest.mark.parametrize("at", [0, 1, 32768, -1], ids=["0", "1", "32768", "size-1"])
def test_FI_36_a_download_that_is_cut_is_tried_again_and_never_seen(host, hub, whole, at):
    put(host, FILE, whole[:100])
    hub.faults["tokenizer.json"] = fault = Fault("cut", at % len(whole) if at >= 0 else len(whole) - 1, times=1)
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert fault.fired == 1
    assert lies_there(host, FILE) == whole
    assert leftovers(host) == []


FALSE_BYTES = {
    "html": (Fault("html"), f"has size {len(HTML)}"),
    "pointer": (Fault("pointer"), "has size 13"),
    "flipped": (Fault("flip"), "sha256"),
}


@pytest.mark.parametrize(("fault", "words"), FALSE_BYTES.values(), ids=FALSE_BYTES)
def test_FI_37_what_answers_200_with_other_bytes_is_refused(host, hub, whole, fault, words):
    before = whole[:32768]
    put(host, FILE, before)
    hub.faults["tokenizer.json"] = Fault(fault.kind)
    plan = tokenizer.plan(site_of(host, hub))
    with pytest.raises(RemoteFault) as refusal:
        apply(host, plan)
    assert hub.faults["tokenizer.json"].fired == 3
    assert refusal.value.kind == "torn"
    assert words in refusal.value.message
    assert lies_there(host, FILE) == before
    assert leftovers(host) == []


def test_FI_37_one_false_answer_is_followed_by_the_true_one(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.faults["tokenizer.json"] = fault = Fault("html", times=1)
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert fault.fired == 1
    assert lies_there(host, FILE) == whole


def leftovers(host):
    return [e.path for e in host.list_files(f"{PROJECT.scratch}")] + [
        e.path for e in host.list_files(PROJECT.tree) if ".hs-part-" in e.path or "incomplete" in e.path
    ]


def test_a_hub_that_does_not_know_the_repository_is_told_and_nothing_is_planned(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories.clear()
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert "no good one could be had" in plan.findings[0].message
    assert "fixers.tokenizer.repo" in plan.findings[0].hint


def test_a_gated_repository_says_how_to_get_in(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories[REPO].gated = True
    with pytest.raises(RemoteFault) as refusal:
        apply(host, tokenizer.plan(site_of(host, hub)))
    assert refusal.value.kind == "gated"
    assert lies_there(host, FILE) == whole[:32768]


def test_a_gated_repository_opens_with_the_token_of_the_host(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories[REPO].gated, hub.repositories[REPO].token = True, "hf_lab"
    apply(host, tokenizer.plan(site_of(host, hub, environment={"HF_TOKEN": "hf_lab"})))
    assert lies_there(host, FILE) == whole


def test_a_hub_that_cannot_be_reached_is_told(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub, environment={"HF_ENDPOINT": "http://127.0.0.1:9"}))
    assert plan.empty
    assert "HF_ENDPOINT" in plan.findings[0].hint


def test_offline_is_obeyed(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub, environment={"HF_HUB_OFFLINE": "1"}))
    assert plan.empty
    assert "HF_HUB_OFFLINE" in plan.findings[0].hint
    assert hub.requests == []


def cache(root, data, *, blob=None, name="tokenizer.json", content=None):
    """A hub cache in which the snapshot's file is a link to a blob named by its digest."""
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
def test_a_cached_blob_that_is_not_its_name_is_fetched_again(host, hub, whole, tmp_path, revision):
    blob = cache(tmp_path / "hf", whole, content=whole[:32768])
    site = site_of(host, hub, environment={"HF_HOME": str(tmp_path / "hf")}, model={"id": REPO, "revision": revision})
    plan = tokenizer.plan(site)
    assert [change.args["revision"] for change in plan.changes] == [COMMIT]
    apply(host, plan)
    assert blob.read_bytes() == whole
    assert tokenizer.plan(site).findings == ()
    host.act("fix.undo", plan.changes[0].args)
    assert blob.read_bytes() == whole[:32768]


def test_a_cached_companion_with_one_wrong_byte_is_seen_by_its_git_digest(host, hub, tmp_path):
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


def test_a_good_copy_in_the_cache_is_taken_without_asking_the_hub(host, hub, whole, tmp_path):
    cache(tmp_path / "hf", whole)
    put(host, FILE, whole[:32768])
    apply(host, tokenizer.plan(site_of(host, hub, environment={"HF_HOME": str(tmp_path / "hf")})))
    assert lies_there(host, FILE) == whole
    assert hub.requests == []


def test_a_good_copy_in_the_project_is_taken_where_the_config_names_its_folder(host, hub, whole):
    put(host, FILE, whole[:32768])
    host.write_bytes(f"{PROJECT.tree}/assets/tokenizer.json", whole)
    apply(host, tokenizer.plan(site_of(host, hub, wish={"source": "assets"}, model={"id": "./model"})))
    assert lies_there(host, FILE) == whole
    assert hub.requests == []


def test_a_file_as_broken_here_as_there_with_a_good_copy_in_the_project_is_one_change_of_the_tree(host, hub, whole):
    put(host, FILE, whole[:32768])
    files = {FILE: whole[:32768], "assets/tokenizer.json": whole}
    site = site_of(host, hub, files, wish={"source": "assets"}, model={"id": "./model"})
    (change,) = tokenizer.plan(site).changes
    assert (change.path, change.before, change.after) == (FILE, whole[:32768], whole)
    put(host, FILE, whole)
    assert tokenizer.plan(site).empty


def test_a_file_that_parses_but_differs_from_the_hubs_is_told_and_kept(host, hub, whole):
    edited = whole.replace(b'"version":"1.0"', b'"version":"1.0" ', 1)
    assert edited != whole
    put(host, FILE, edited)
    record = f"{COMMIT}\n{hashlib.sha256(whole).hexdigest()}\n1700000000.0\n"
    host.write_bytes(f"{PROJECT.tree}/model/.cache/huggingface/download/tokenizer.json.metadata", record.encode())
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert [(f.severity, "differs" in f.message) for f in plan.findings] == [(Severity.WARNING, True)]


def test_merges_in_pairs_are_told_to_an_old_library_and_the_file_is_kept(host, hub, whole):
    put(host, FILE, whole)
    plan = tokenizer.plan(site_of(host, hub, packages={"tokenizers": "0.19.1"}))
    assert plan.empty
    assert "newer than the library" in plan.findings[0].message
    assert "tokenizers>=0.20" in plan.findings[0].hint


def test_a_whole_json_that_does_not_load_is_replaced(host, hub, whole):
    put(host, FILE, whole.replace(b'"type":"BPE"', b'"type":"BPQ"', 1))
    plan = tokenizer.plan(site_of(host, hub))
    assert "does not load" in plan.findings[0].message
    apply(host, plan)
    assert lies_there(host, FILE) == whole


def test_a_file_that_is_the_hubs_and_does_not_load_has_a_reader_that_is_too_old(host, hub, whole):
    newer = whole.replace(b'"type":"BPE"', b'"type":"BPQ"', 1)
    hub.repositories[REPO].files["tokenizer.json"] = newer
    put(host, FILE, newer)
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert "reader is too old" in plan.findings[0].message
    assert "pip install -U" in plan.findings[0].hint


def test_undoing_the_whole_tree_puts_a_tokenizer_back_too(host, hub, whole):
    put(host, FILE, whole[:32768])
    apply(host, tokenizer.plan(site_of(host, hub)))
    host.act("tree.undo", {"project": PROJECT.key, "owner": "", "paths": None})
    assert lies_there(host, FILE) == whole[:32768]
    host.act("fix.undo", {"project": PROJECT.key, "fixer": "tokenizer"})
    assert lies_there(host, FILE) == whole[:32768]
    assert manifest_row(host, FILE).fixers == {}


def test_a_file_not_sent_yet_is_judged_from_the_laptop(host, hub, whole):
    plan = tokenizer.plan(site_of(host, hub, files={FILE: whole[:32768]}))
    (change,) = plan.changes
    assert change.args["path"] == f"{host.workdir}/{PROJECT.tree}/{FILE}"


def test_an_edit_made_after_the_plan_is_never_overwritten(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    put(host, FILE, b"mine")
    with pytest.raises(RemoteFault, match="not what the plan saw"):
        apply(host, plan)
    assert lies_there(host, FILE) == b"mine"


def test_undo_leaves_what_was_edited_after_the_repair(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    apply(host, plan)
    host.write_bytes(f"{PROJECT.tree}/{FILE}", b"mine")
    with pytest.raises(RemoteFault, match="left as it is"):
        host.act("fix.undo", plan.changes[0].args)
    assert lies_there(host, FILE) == b"mine"


def test_what_a_sync_put_there_since_the_repair_is_left_and_repaired_anew_if_need_be(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub))
    apply(host, plan)
    put(host, FILE, whole[:100])
    assert host.act("fix.undo", plan.changes[0].args)["restored"] == []
    assert lies_there(host, FILE) == whole[:100]
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert lies_there(host, FILE) == whole
    host.act("fix.undo", plan.changes[0].args)
    assert lies_there(host, FILE) == whole[:100]


def test_a_repair_cut_before_the_manifest_was_written_is_finished(host, hub, whole):
    put(host, FILE, whole[:32768])
    site = site_of(host, hub)
    manifest = host.read_bytes(PROJECT.manifest)
    apply(host, tokenizer.plan(site))
    host.write_bytes(PROJECT.manifest, manifest)
    apply(host, tokenizer.plan(site))
    assert manifest_row(host, FILE).there == hashlib.sha256(whole).hexdigest()
    assert tokenizer.plan(site).findings == ()


@pytest.fixture
def laptop_environment(hub, monkeypatch, tmp_path):
    for name, value in {**hub.environment, "HF_HOME": str(tmp_path / "hf")}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("laptop_environment")
def test_a_tokenizer_on_the_laptop_is_fetched_there(hub, whole):
    before = whole[:32768]
    site = Site(MemoryTree({FILE: before}), config={"model": {"id": REPO, "revision": COMMIT}})
    (change,) = tokenizer.plan(site).changes
    assert (change.path, change.before, change.after) == (FILE, before, whole)
    assert tokenizer.plan(Site(MemoryTree({FILE: whole}), config=site.config)).findings == ()


@pytest.mark.usefixtures("laptop_environment")
def test_the_model_beside_a_tokenizer_says_whose_it_is(host, hub, whole):
    files = {FILE: whole[:100], "model/config.json": json.dumps({"_name_or_path": REPO}).encode()}
    (change,) = tokenizer.plan(Site(MemoryTree(files))).changes
    assert change.after == whole
    put(host, FILE, whole[:100])
    (there,) = tokenizer.plan(site_of(host, hub, files, model={"id": "other/model"})).changes
    assert there.args["repo"] == REPO
    certain = tokenizer.plan(site_of(host, hub, files, wish={"repo": "lab/elsewhere"}))
    assert "lab/elsewhere" in certain.findings[0].message
