"""The environment fixer creates a real venv from local wheels."""

import io
import os
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from fixers.frame.change import Plan
from fixers.setup import environment
from remote.errors import RemoteFault
from remote.protocol.findings import Severity
from remote.protocol.machine import Gpu, Interpreter, Torch
from tests.fixers.hosts.local_wheels import host, imports, site_of, state_of, venv
from tests.fixers.setup_rig import PROJECT, MemoryTree, site_at

__all__ = ["host"]

A100 = Gpu(0, "GPU-3", "A100", (8, 0), 40 * 2**30)
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


BACKEND = """import torch, zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "flash_attn-2.8-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as file:
        file.writestr("flash_attn.py", "")
        file.writestr("flash_attn-2.8.dist-info/METADATA", "Metadata-Version: 2.1\\nName: flash-attn\\nVersion: 2.8\\n")
        file.writestr("flash_attn-2.8.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        file.writestr("flash_attn-2.8.dist-info/RECORD", "")
    return name
"""
FILES = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
    "backend.py": BACKEND,
    "PKG-INFO": "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8\n",
}


def flash_attn(host):
    """Put a source package whose build imports torch beside the wheels, and require it in an included file."""
    tree = Path(host.workdir) / PROJECT.tree
    with tarfile.open(tree / "wheels/flash_attn-2.8.tar.gz", "w:gz") as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"flash_attn-2.8/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    (tree / "requirements.txt").write_text("speechkit>=1\n-r more/gpu.txt\n")
    (tree / "more").mkdir()
    (tree / "more/gpu.txt").write_text("flash_attn>=2  # fast\n")


def test_flash_attn_is_left_out_where_the_card_cannot_run_it(host):
    flash_attn(host)
    (change,) = environment.plan(site_of(host)).changes
    events = []
    assert host.act(change.op, change.args, on_event=events.append)["made"] is True
    assert [event["note"] for event in events if "flash-attn" in event.get("note", "")] == [
        "flash-attn is left out because the card cannot run it; the fixers select sdpa instead"
    ]
    imports(host, "torch", "speechkit")
    assert not list(Path(venv(host)).glob("lib/*/site-packages/flash_attn*"))


def test_a_package_that_imports_torch_while_it_is_built_is_installed_after_torch(host):
    flash_attn(host)
    (change,) = environment.plan(site_of(host, gpu=A100)).changes
    assert host.act(change.op, change.args)["made"] is True
    imports(host, "torch", "speechkit", "flash_attn")


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


def test_requirements_written_after_the_venv_was_made_are_installed_into_it(host, tmp_path):
    bare = site_of(host)
    bare = replace(bare, tree=MemoryTree({}), settings={"environment": {**bare.settings["environment"]}})
    (change,) = environment.plan(bare).changes
    assert change.args["requirements"] == []
    host.act(change.op, change.args)
    Path(venv(host), "kept").touch()
    written = site_of(host)
    fits = Interpreter(written.survey.interpreter.path, torch=Torch("2.13.1", "12.9", ("sm_75",)))
    written = replace(written, survey=replace(written.survey, interpreter=fits))
    (change,) = environment.plan(written).changes
    assert change.summary == "install requirements.txt into venv on the host"
    host.act(change.op, change.args)
    imports(host, "torch", "speechkit")
    assert Path(venv(host), "kept").exists(), "the venv was made again"
    assert environment.plan(written) == Plan()


def test_a_corrected_requirement_does_not_make_the_venv_again(host):
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", b"speechkit>=1\nno-such-package\n")
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="no-such-package"):
        host.act(change.op, change.args)
    Path(venv(host), "kept").touch()
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", b"speechkit>=1\n")
    (change,) = environment.plan(site_of(host)).changes
    assert host.act(change.op, change.args)["resumed"] is True
    imports(host, "torch", "speechkit")
    assert Path(venv(host), "kept").exists()
