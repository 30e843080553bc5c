"""The source of a valid tokenizer file, in plans for a fake host and for a laptop."""

import pytest

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import resolved
from fixers.frame.site import Site
from fixers.setup import tokenizer
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Interpreter
from remote.protocol.tokenizer_files import Digest, Fault, TokenizerFile, digest_of
from remote.protocol.values import encode
from tests.fixers.setup_rig import PROJECT, MemoryTree, site_at, survey_of
from tests.lab.fake_host import FakeHost

TREE = f"/home/fake/halfstep/{PROJECT.tree}"
FILE = "model/tokenizer.json"
REMOTE = f"{TREE}/{FILE}"
REPO = "lab/speech"
COMMIT = "c0ffee" * 6 + "beef"
CUT, WHOLE = b'{"model": {', b'{"model": {"type": "BPE"}}'
GOOD = digest_of(WHOLE)


BAD = TokenizerFile(REMOTE, "/blobs/1", len(CUT), digest_of(CUT).sha256, Fault("truncated", "d"))
IS_BROKEN = "tokenizer.json is broken: truncated: d"
BROKEN = Finding("tokenizer", Severity.ERROR, IS_BROKEN, REMOTE, exit_code=ExitCode.FIXER)
HUB_HAS = {"commit": COMMIT, "digests": {"tokenizer.json": encode(GOOD)}}


def plan_of(*files, hub=HUB_HAS, tree=None, packages=None, **known):
    """Return the plan for a host with these files, and all requests to the host."""
    asked = []

    def look(args):
        asked.append(args)
        return {"files": encode(files)}

    def tell(args):
        asked.append((args["repo"], args["revision"]))
        return hub

    host = FakeHost(operations={"fix.tokenizer.look": look, "fix.tokenizer.hub": tell})
    survey = survey_of(interpreter=Interpreter("/v/bin/python", packages=packages or {}))
    config = {"model": {"id": REPO, "revision": "r"}}
    return tokenizer.plan(site_at(host, tree or {}, **{"survey": survey, "config": config, **known})), asked


def change(summary, **args):
    whole = {
        "project": PROJECT.key,
        "python": "/v/bin/python",
        "environment": {},
        "fixer": "tokenizer",
        "path": "/blobs/1",
        "expected": digest_of(CUT).sha256,
        "name": "tokenizer.json",
        **args,
    }
    return HostChange("tokenizer", summary, "fix.tokenizer.replace", whole, undo="fix.undo")


FROM_HUB = change(
    f"replace {REMOTE} (11 bytes) with the file from lab/speech at c0ffeec0ffee (26 bytes)",
    repo=REPO,
    revision=COMMIT,
    digest=encode(GOOD),
)


def test_a_broken_file_is_replaced_by_the_hubs_at_one_commit():
    plan, asked = plan_of(BAD)
    assert plan == Plan((resolved(BROKEN),), (FROM_HUB,))
    question = {"project": PROJECT.key, "python": "/v/bin/python", "environment": {}, "folders": []}
    assert asked == [{**question, "models": [{"repo": REPO, "revision": "r"}]}, (REPO, "r")]


def test_the_host_looks_into_the_folders_that_the_config_names():
    _, (asked,) = plan_of(config={"model": {"id": "./m"}}, settings={"tokenizer": {"folders": ["/data/tok"]}})
    assert (asked["folders"], asked["models"]) == (["/data/tok"], [])


CACHED = TokenizerFile("/hub/tokenizer.json", "/hub/b", 26, GOOD.sha256, known_from="cache", repo=REPO, revision="r")


def test_a_cached_copy_of_the_same_revision_is_used_without_a_hub_query():
    plan, asked = plan_of(BAD, CACHED)
    digest = encode(Digest(26, GOOD.sha256))
    assert plan.changes == (
        change(f"replace {REMOTE} (11 bytes) with the file from /hub/b (26 bytes)", copy="/hub/b", digest=digest),
    )
    assert len(asked) == 1


def test_a_copy_in_the_project_folder_that_the_config_names_is_used():
    asset = TokenizerFile(f"{TREE}/assets/tokenizer.json", "/real", 26, GOOD.sha256)
    plan, asked = plan_of(BAD, CACHED, asset, settings={"tokenizer": {"source": "assets"}})
    assert [each.args["copy"] for each in plan.changes] == ["/real"]
    assert len(asked) == 1


def test_an_interrupted_replacement_is_recorded_afterwards():
    noted = TokenizerFile(REMOTE, "/blobs/1", 26, GOOD.sha256, Fault("unrecorded", "d"))
    (repair,) = plan_of(noted)[0].changes
    assert (repair.args["copy"], repair.args["expected"]) == ("/blobs/1", GOOD.sha256)
    assert repair.args["digest"] == encode(Digest(26, GOOD.sha256))


def unresolved(reason, hint):
    message = f"{IS_BROKEN}; no valid copy is available: {reason}"
    return Finding("tokenizer", Severity.ERROR, message, REMOTE, hint, ExitCode.FIXER)


EXPLAIN = "pipeline explain tokenizer"


@pytest.mark.parametrize(
    ("hub", "reason", "hint"),
    [
        ({"fault": "offline", "message": "m"}, "lab/speech: m", "unset HF_HUB_OFFLINE for one run"),
        ({"fault": "strange", "message": "m"}, "lab/speech: m", EXPLAIN),
        ({"commit": COMMIT, "digests": {}}, "lab/speech has no tokenizer.json at c0ffeec0ffee", EXPLAIN),
        (
            {"commit": COMMIT, "digests": {"tokenizer.json": encode(digest_of(CUT))}},
            "the file is identical to the one in lab/speech, so the installed library is too old to read it",
            'pip install -U "tokenizers>=0.20" "transformers>=4.45"',
        ),
    ],
)
def test_a_file_without_a_good_replacement_is_reported_and_left(hub, reason, hint):
    assert plan_of(BAD, hub=hub)[0] == Plan((unresolved(reason, hint),))


def test_a_file_of_an_unknown_model_is_reported_without_a_hub_query():
    plan, asked = plan_of(BAD, config={})
    assert plan.findings == (
        unresolved("the model of this tokenizer is unknown", "set fixers.tokenizer.repo in the config"),
    )
    assert len(asked) == 1


def test_one_file_that_cannot_be_repaired_does_not_stop_the_others():
    lost = TokenizerFile(f"{TREE}/model/vocab.json", "v", 0, "bb", Fault("empty", "d"))
    old = TokenizerFile(f"{TREE}/b/tokenizer.json", "x", 9, "cc", paired_merges=True)
    plan, _ = plan_of(old, lost, BAD, packages={"tokenizers": "0.19.1"})
    assert [finding.severity for finding in plan.findings] == [Severity.ERROR, Severity.ERROR, Severity.INFO]
    assert "too new for the installed library" in plan.findings[0].message
    assert plan.changes == (FROM_HUB,)


@pytest.mark.parametrize("survey", [None, survey_of()])
def test_an_unknown_version_of_tokenizers_does_not_count_as_too_old(survey):
    pairs = TokenizerFile(REMOTE, "x", 9, "cc", paired_merges=True)
    assert plan_of(pairs, survey=survey)[0] == Plan()


ASSETS = {FILE: CUT, "assets/tokenizer.json": WHOLE}
SOURCE = {"tokenizer": {"source": "assets"}}
REASON = f"{IS_BROKEN}; the valid file has 26 bytes"
IN_TREE = FileChange(FILE, CUT, WHOLE, {"tokenizer": 1}, (REASON,))


def test_a_file_broken_on_both_machines_is_one_change_of_the_tree():
    assert plan_of(BAD, tree=ASSETS, settings=SOURCE)[0] == Plan((resolved(BROKEN),), (IN_TREE,))


@pytest.mark.parametrize(
    ("tree", "settings"),
    [
        (ASSETS, {}),
        ({FILE: CUT + b" ", "assets/tokenizer.json": WHOLE}, SOURCE),
        ({"assets/tokenizer.json": WHOLE}, SOURCE),
        ({FILE: CUT}, SOURCE),
    ],
)
def test_a_file_broken_differently_or_without_a_local_copy_is_changed_on_the_host(tree, settings):
    changes = plan_of(BAD, tree=tree, settings=settings)[0].changes
    assert [type(each) for each in changes] == [HostChange]


def test_a_file_not_sent_yet_is_judged_from_the_laptop_and_one_that_was_by_the_host():
    plan, _ = plan_of(tree={FILE: CUT})
    assert [(each.args["path"], each.args["expected"]) for each in plan.changes] == [(REMOTE, digest_of(CUT).sha256)]
    sent = TokenizerFile(REMOTE, REMOTE, 26, GOOD.sha256)
    assert plan_of(sent, tree={FILE: CUT})[0] == Plan()


@pytest.mark.parametrize("known", [{"host": None}, {"project": None}])
def test_on_the_laptop_a_copy_in_the_project_is_used(known):
    site = site_at(FakeHost(), ASSETS, settings=SOURCE)
    site = Site(
        site.tree, host=known.get("host", site.host), project=known.get("project", site.project), settings=SOURCE
    )
    plan = tokenizer.plan(site)
    assert [(each.path, each.before, each.after) for each in plan.changes] == [(FILE, CUT, WHOLE)]
    assert [finding.severity for finding in plan.findings] == [Severity.INFO]


def test_on_the_laptop_a_file_of_an_unknown_model_is_reported():
    (finding,) = tokenizer.plan(Site(MemoryTree({FILE: CUT}))).findings
    assert (finding.where, finding.hint) == (FILE, "set fixers.tokenizer.repo in the config")
    assert tokenizer.plan(Site(MemoryTree({FILE: WHOLE}))) == Plan()
