"""Which collator the host imports, and which copies are outdated, tested with tables and a fake host."""

import base64
import hashlib

import pytest

from fixers.frame.change import FileChange, HostChange, Plan
from fixers.frame.findings import resolved
from fixers.setup import data_collator
from fixers.setup.data_collator import collator_of, judge_collator
from remote.protocol.collator import CollatorFacts, Copy
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Interpreter
from remote.protocol.values import encode
from tests.fixers.setup_rig import PROJECT, MemoryTree, site_at, survey_of
from tests.lab.fake_host import FakeHost

FILE = "src/AudioDataCollator.py"
NEW, OLD = b"padding = -100\n", b"padding = 0\n"
DIGEST = hashlib.sha256(NEW).hexdigest()


def error(message, where=FILE, hint="pipeline fix --only data-collator", code=ExitCode.FIXER):
    return Finding("data-collator", Severity.ERROR, message, where, hint, code)


def copy_warning(path, reach=""):
    message = f"another {path.rpartition('/')[2]} on the host differs{reach}"
    return Finding("data-collator", Severity.WARNING, message, path, f"rm -- {path}   (on the host)")


NOT_OURS = error("AudioDataCollator.py on the host differs from the project's")
EDITED = error("AudioDataCollator.py on the host was edited there")


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["src/AudioDataCollator.py", "train.py"], "src/AudioDataCollator.py"),
        (["collator.py", "tests/test_collator.py"], "collator.py"),
        (["my_COLLATOR.py"], "my_COLLATOR.py"),
        (["a/collator.py", "b/collator.py"], ""),
        (["collator.md", "collator/train.py"], ""),
        ([], ""),
    ],
)
def test_a_collator_is_found_by_its_name_if_it_is_the_only_one(paths, found):
    assert collator_of(paths) == found


@pytest.mark.parametrize(
    ("look", "findings"),
    [
        (CollatorFacts(DIGEST), ()),
        (CollatorFacts(""), ()),
        (CollatorFacts("", edited=True), ()),
        (CollatorFacts(DIGEST, edited=True), ()),
        (CollatorFacts("bb"), (NOT_OURS,)),
        (CollatorFacts("bb", edited=True), (EDITED,)),
        (CollatorFacts("zz", copies=(Copy("/a/b.py", "cc"),)), (NOT_OURS, copy_warning("/a/b.py"))),
        (CollatorFacts(DIGEST, copies=(Copy("/x", DIGEST), Copy("/y", ""))), ()),
        (
            CollatorFacts(DIGEST, copies=(Copy("/a/x.py", "cc"), Copy("/b/x.py", "zz", True))),
            (copy_warning("/a/x.py"), copy_warning("/b/x.py", "; it is imported instead of the project's")),
        ),
    ],
)
def test_each_state_of_the_hosts_files_is_judged_as_listed(look, findings):
    assert judge_collator(FILE, DIGEST, look) == findings


def plan_of(look, setting="auto", files=None, **known):
    """Return the plan, and the requests to the host."""
    asked = []

    def answer(args):
        asked.append(args)
        return encode(look)

    host = FakeHost(operations={"fix.collator.look": answer})
    site = site_at(known.pop("host", host), files or {FILE: NEW}, settings={"data-collator": setting}, **known)
    return data_collator.plan(site), asked


def replacement(expected):
    args = {
        "project": PROJECT.key,
        "fixer": "data-collator",
        "path": FILE,
        "expected": expected,
        "data": base64.b64encode(NEW).decode(),
    }
    return HostChange(
        "data-collator", f"replace {FILE} on the host with the project's", "fix.collator.replace", args, undo="fix.undo"
    )


@pytest.mark.parametrize(
    ("look", "plan"),
    [
        (CollatorFacts(DIGEST), Plan()),
        (CollatorFacts("bb"), Plan((resolved(NOT_OURS),), (replacement("bb"),))),
        (CollatorFacts("bb", edited=True), Plan((resolved(EDITED),), (replacement("bb"),))),
        (CollatorFacts(DIGEST, copies=(Copy("/c.py", "cc"),)), Plan((copy_warning("/c.py"),))),
        (
            CollatorFacts("bb", copies=(Copy("/c.py", "cc"),)),
            Plan((resolved(NOT_OURS), copy_warning("/c.py")), (replacement("bb"),)),
        ),
    ],
)
@pytest.mark.parametrize("setting", ["auto", {"path": FILE}, {"path": None}], ids=["found", "named", "named nothing"])
def test_the_hosts_collator_is_replaced_by_the_projects_and_other_copies_are_reported(look, plan, setting):
    assert plan_of(look, setting)[0] == plan


def test_the_host_searches_where_its_interpreter_imports_from():
    survey = survey_of(interpreter=Interpreter("/v/bin/python", prefix="/v"))
    _, (asked,) = plan_of(CollatorFacts(""), survey=survey, environment={"PYTHONPATH": "/p"})
    assert asked == {"project": PROJECT.key, "path": FILE, "prefix": "/v", "environment": {"PYTHONPATH": "/p"}}
    _, (unknown,) = plan_of(CollatorFacts(""), survey=None)
    assert unknown["prefix"] == ""


def absent(wanted, hint, key="path"):
    message = f"fixers.data-collator.{key} names {wanted}, which the project does not have"
    return error(message, wanted, hint, ExitCode.USAGE)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("src/AudioDatacollator.py", f"set fixers.data-collator.path to {FILE}"),
        ("a/very/long/way/from/the/AudioDataCollator.py", f"set fixers.data-collator.path to {FILE}"),
        ("x.cfg", "correct fixers.data-collator.path"),
    ],
)
def test_a_path_that_the_project_does_not_have_is_reported_with_the_nearest_one(wanted, hint):
    files = {FILE: NEW, "train.py": b"", "zz.py": b""}
    assert plan_of(CollatorFacts("bb"), {"path": wanted}, files) == (Plan((absent(wanted, hint),)), [])


@pytest.mark.parametrize("setting", ["auto", {"copies": ["x.py"]}])
def test_a_project_without_a_collator_makes_no_request_to_the_host(setting):
    assert plan_of(CollatorFacts("bb"), setting, {"train.py": b""}) == (Plan(), [])


STALE = "copy.py is a stale copy of src/AudioDataCollator.py"
COPY_RESOLVED = resolved(Finding("data-collator", Severity.ERROR, STALE, where="copy.py"))
COPY_CHANGE = FileChange("copy.py", OLD, NEW, {"data-collator": 1}, (STALE,))


@pytest.mark.parametrize("known", [{"host": None}, {"project": None}])
def test_listed_copies_in_the_project_become_equal_without_a_host(known):
    setting = {"path": FILE, "copies": ["gone.py", "even.py", "copy.py"]}
    files = {FILE: NEW, "copy.py": OLD, "even.py": NEW, "unlisted.py": OLD}
    plan, asked = plan_of(CollatorFacts("bb"), setting, files, **known)
    assert plan == Plan(
        (absent("gone.py", "correct fixers.data-collator.copies", "copies"), COPY_RESOLVED), (COPY_CHANGE,)
    )
    assert asked == []


def test_listed_copies_come_before_what_is_done_on_the_host():
    plan, _ = plan_of(CollatorFacts("bb"), {"path": FILE, "copies": ["copy.py"]}, {FILE: NEW, "copy.py": OLD})
    assert plan == Plan((COPY_RESOLVED, resolved(NOT_OURS)), (COPY_CHANGE, replacement("bb")))


def test_the_tree_is_read_as_the_source_fixers_leave_it():
    site = site_at(None, tree=MemoryTree({FILE: NEW}))
    assert data_collator._as_sent(site, FILE) == NEW
