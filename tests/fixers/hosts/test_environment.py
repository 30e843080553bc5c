"""The environment fixer creates a real venv from local wheels."""

import os
import subprocess

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from remote.protocol.findings import Severity
from remote.protocol.machine import Gpu
from tests.fixers.hosts.local_wheels import host, imports, site_of, state_of, venv
from tests.fixers.setup_rig import PROJECT, site_at

__all__ = ["host"]

P100 = Gpu(0, "GPU-2", "P100", (6, 0), 16 * 2**30)


def test_nothing_is_created_unless_requested(host):
    site = site_of(host)
    for setting in ({}, {"environment": "auto"}, {"environment": "off"}):
        assert environment.plan(site_at(host, survey=site.survey, gpu=site.gpu, settings=setting)) == environment.Plan()


def test_a_venv_is_created_completely_once_and_removed_by_undo(host, tmp_path):
    plan = environment.plan(site_of(host))
    assert [finding.severity for finding in plan.findings] == [Severity.INFO]
    (change,) = plan.changes
    assert "torch==2.13.* (cu129)" in change.summary
    assert host.act(change.op, change.args)["made"] is True
    completed = subprocess.run(
        [f"{venv(host)}/bin/python", "-c", "import torch, speechkit; print(speechkit.answer, torch.__path__[0])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert completed.stdout.startswith(f"42 {venv(host)}")
    assert host.act(change.op, change.args)["made"] is False
    assert host.act("fix.undo", {"project": PROJECT.key, "fixer": "environment"}) == {"restored": [venv(host)]}
    assert host.list_files(f"{PROJECT.tree}/venv") == ()


def test_an_unavailable_requirement_is_named_and_undo_removes_the_venv(host):
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", b"speechkit>=1\nno-such-package\n")
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="no-such-package") as refusal:
        host.act(change.op, change.args)
    assert refusal.value.exit_code == 20
    assert "No matching distribution found for no-such-package" in refusal.value.message
    assert state_of(host) == "unfinished"
    assert host.act("fix.undo", {"project": PROJECT.key, "fixer": "environment"}) == {"restored": [venv(host)]}
    assert host.list_files(f"{PROJECT.tree}/venv") == ()


def test_a_torch_that_cannot_run_on_the_card_is_an_error(host):
    (change,) = environment.plan(site_of(host, gpu=P100)).changes
    with pytest.raises(RemoteFault, match="no code for capability 6"):
        host.act(change.op, change.args)
    assert state_of(host) == "unfinished"


def test_an_environment_of_the_user_is_never_changed(host):
    host.write_bytes(f"{PROJECT.tree}/venv/bin/python", b"mine")
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="was not made by halfstep"):
        host.act(change.op, change.args)
    assert host.act("fix.undo", {"project": PROJECT.key, "fixer": "environment"}) == {"restored": []}
    assert host.read_bytes(f"{PROJECT.tree}/venv/bin/python") == b"mine"


def test_an_existing_empty_folder_is_used(host):
    os.makedirs(venv(host))
    (change,) = environment.plan(site_of(host)).changes
    assert host.act(change.op, change.args)["made"] is True


def test_requirements_may_name_other_files_and_folders_beside_them(host):
    host.write_bytes(
        f"{PROJECT.tree}/requirements.txt", b"--no-index\n-r more/other.txt\n./wheels/torch-2.13.1-py3-none-any.whl\n"
    )
    host.write_bytes(f"{PROJECT.tree}/more/other.txt", b"speechkit\n")
    (change,) = environment.plan(site_of(host)).changes
    assert host.act(change.op, change.args)["made"] is True
    imports(host, "torch", "speechkit")
