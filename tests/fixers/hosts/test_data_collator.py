"""The host's data collator becomes the project's; other copies are reported."""

import hashlib
import sys
from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from fixers.setup import data_collator
from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import PROJECT, MemoryTree, apply, manifest_row, put, remote_content, site_at, survey_of
from tests.lab.payload import install_payload

FILE = "src/AudioDataCollator.py"
OLD = b"class AudioDataCollator:\n    padding = 0\n"
NEW = b"class AudioDataCollator:\n    padding = -100\n"


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    yield agent
    agent.close()


def site_of(host, setting=None, **known):
    return site_at(host, {FILE: NEW, "train.py": b""}, settings={"data-collator": setting or {"path": FILE}}, **known)


@pytest.mark.parametrize("setting", [{"path": FILE}, "auto"], ids=["named", "found by its name"])
def test_a_collator_edited_on_the_host_is_replaced_by_the_projects_and_can_be_restored(host, setting):
    put(host, FILE, NEW)
    host.write_bytes(f"{PROJECT.tree}/{FILE}", OLD)
    plan = data_collator.plan(site_of(host, setting))
    assert "was edited there" in plan.findings[0].message
    assert data_collator.plan(site_of(host, setting)) == plan
    apply(host, plan)
    assert remote_content(host, FILE) == NEW
    assert manifest_row(host, FILE).installed == hashlib.sha256(NEW).hexdigest()
    assert data_collator.plan(site_of(host, setting)) == data_collator.Plan()
    host.act(plan.changes[0].undo, plan.changes[0].args)
    assert remote_content(host, FILE) == OLD


def test_identical_files_cause_no_finding(host):
    put(host, FILE, NEW)
    assert data_collator.plan(site_of(host)) == data_collator.Plan()


def test_a_project_that_was_not_sent_yet_causes_no_finding(host):
    assert data_collator.plan(site_of(host)) == data_collator.Plan()


def test_copies_beside_the_project_on_the_path_and_in_the_environment_are_named(host, tmp_path):
    put(host, FILE, NEW)
    host.write_bytes(f"{PROJECT.tree}/backup/AudioDataCollator.py", OLD)
    host.write_bytes(f"{PROJECT.tree}/same/AudioDataCollator.py", NEW)
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "AudioDataCollator.py").write_bytes(OLD + b"#")
    ahead = tmp_path / "ahead"
    ahead.mkdir()
    (ahead / "AudioDataCollator.py").write_bytes(OLD + b"##")
    interpreter = Interpreter(sys.executable, prefix=str(tmp_path / "venv"))
    site = site_of(host, survey=survey_of(interpreter=interpreter), environment={"PYTHONPATH": str(ahead)})
    plan = data_collator.plan(site)
    assert plan.empty
    assert {finding.where: "instead of the project" in finding.message for finding in plan.findings} == {
        str(ahead / "AudioDataCollator.py"): True,
        f"{host.workdir}/{PROJECT.tree}/backup/AudioDataCollator.py": False,
        str(packages / "AudioDataCollator.py"): False,
    }
    assert all(finding.severity is Severity.WARNING for finding in plan.findings)


def test_a_path_that_the_project_does_not_have_is_reported_with_the_nearest_one():
    plan = data_collator.plan(
        site_at(None, {FILE: NEW}, settings={"data-collator": {"path": "src/AudioDatacollator.py"}})
    )
    assert plan.findings[0].exit_code == 2
    assert FILE in plan.findings[0].hint


def test_an_edit_after_the_plan_is_not_overwritten(host):
    put(host, FILE, OLD)
    plan = data_collator.plan(site_of(host))
    host.write_bytes(f"{PROJECT.tree}/{FILE}", b"mine")
    with pytest.raises(RemoteFault, match="changed after the plan was made"):
        apply(host, plan)
    assert remote_content(host, FILE) == b"mine"


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", "src/../../x.py"])
def test_no_path_leads_out_of_the_project(host, path):
    with pytest.raises(RemoteFault) as refusal:
        host.act(
            "fix.collator.replace",
            {"project": PROJECT.key, "fixer": "data-collator", "path": path, "expected": "", "data": ""},
        )
    assert refusal.value.kind == "bad-path"


def test_a_listed_copy_in_the_project_becomes_equal_on_both_machines(host):
    setting = {"path": FILE, "copies": ["AudioDataCollator.py"]}
    files = {FILE: NEW, "AudioDataCollator.py": OLD, "other/AudioDataCollator.py": OLD}
    for site in (
        Site(MemoryTree(files), settings={"data-collator": setting}),
        site_at(host, files, settings={"data-collator": setting}),
    ):
        plan = data_collator.plan(site)
        assert [(change.path, change.before, change.after) for change in plan.changes] == [
            ("AudioDataCollator.py", OLD, NEW)
        ]
        assert "stale copy" in plan.findings[0].message
        assert plan.findings[0].severity is Severity.INFO
    even = {**files, "AudioDataCollator.py": NEW}
    assert data_collator.plan(Site(MemoryTree(even), settings={"data-collator": setting})) == data_collator.Plan()


def test_a_missing_listed_copy_is_reported():
    setting = {"path": FILE, "copies": ["AudioCollator.py"]}
    plan = data_collator.plan(Site(MemoryTree({FILE: NEW}), settings={"data-collator": setting}))
    assert "fixers.data-collator.copies" in plan.findings[0].message
    assert plan.changes == ()


def test_a_stale_copy_that_source_fixers_change_too_is_one_change():
    stale = b"from torch.nn.utils.rnn import pad_sequence\n\nlabels = pad_sequence(labels, padding_value=0)\n"
    setting = {"path": FILE, "copies": ["AudioDataCollator.py"]}
    tree = MemoryTree({FILE: NEW, "AudioDataCollator.py": stale})
    plan = plan_fixes(Site(tree, settings={"data-collator": setting}))
    (change,) = plan.changes
    assert (change.before, change.after) == (stale, NEW)
    assert set(change.fixers) == {"label-padding", "data-collator"}


def test_a_collator_that_source_fixers_will_rewrite_is_not_replaced_separately(host):
    padded = b"from torch.nn.utils.rnn import pad_sequence\n\nlabels = pad_sequence(labels, padding_value=0)\n"
    put(host, FILE, padded)
    plan = plan_fixes(site_at(host, {FILE: padded}), only=["label-padding", "data-collator"])
    assert [type(change) for change in plan.changes] == [FileChange]


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_SE_a_collator_that_leads_out_of_the_tree_is_not_written(host, tmp_path, linked):
    put(host, FILE, NEW)
    host.write_bytes(f"{PROJECT.tree}/{FILE}", OLD)
    (change,) = data_collator.plan(site_of(host)).changes
    installed, victim = Path(host.workdir, PROJECT.tree, FILE), tmp_path / "elsewhere" / Path(FILE).name
    victim.parent.mkdir()
    installed.rename(victim)
    if linked == "file":
        installed.symlink_to(victim)
    else:
        installed.parent.rmdir()
        installed.parent.symlink_to(victim.parent)
    with pytest.raises(RemoteFault, match="outside of the project"):
        host.act(change.op, change.args)
    assert victim.read_bytes() == OLD
