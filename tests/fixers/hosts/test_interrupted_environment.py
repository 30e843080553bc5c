"""An installation that is interrupted, runs twice or fills the disk."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from tests.fixers.hosts.local_wheels import host, imports, site_of, state_of, venv
from tests.fixers.setup_rig import PROJECT
from tests.lab.mounts import why_no_mounts
from tests.lab.package_index import slow_index, wheel
from tests.lab.wait import until

__all__ = ["host"]


def test_a_venv_that_was_interrupted_during_creation_is_created_again(host):
    host.write_bytes(f"{PROJECT.tree}/venv/halfstep.json", b'{"state": "unfinished", "recipe": "x"}')
    host.write_bytes(f"{PROJECT.tree}/venv/bin/python", b"half of it")
    (change,) = environment.plan(site_of(host)).changes
    assert host.act(change.op, change.args)["made"] is True
    assert subprocess.run([f"{venv(host)}/bin/python", "-c", "import torch"], check=True).returncode == 0


@pytest.fixture
def held_index(host, tmp_path):
    with slow_index(tmp_path / "host" / PROJECT.tree / "wheels", "speechkit-1.2-py3-none-any.whl") as index:
        yield index


LAPTOP = """
import json, sys
from remote.link.local import local_host
host = local_host(sys.argv[1])
print(host.greeting["pid"], flush=True)
host.act("fix.environment.create", json.loads(sys.argv[2]))
"""


def begin_and_hold(host, index):
    """Start an installation whose pip waits for the second package.

    Return the change, the laptop and its agent's pid.
    """
    (change,) = environment.plan(site_of(host, find_links=index.url)).changes
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", LAPTOP, host.workdir, json.dumps(change.args)]
    laptop = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=path)
    agent = int(laptop.stdout.readline())
    assert index.asked.wait(60), "pip never asked for the package"
    return change, laptop, agent


def gone(pid):
    """Return True if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_an_agent_killed_while_pip_installs_leaves_a_venv_that_the_next_run_completes(host, held_index):
    change, laptop, agent = begin_and_hold(host, held_index)
    os.kill(agent, signal.SIGKILL)
    laptop.communicate(timeout=60)
    assert state_of(host) == "unfinished"
    held_index.gate.set()
    events = []
    answer = host.act(change.op, change.args, on_event=events.append)
    assert (answer["made"], answer["resumed"]) == (True, True)
    assert any("resuming the unfinished" in event.get("note", "") for event in events)
    assert state_of(host) == "done"
    imports(host, "torch", "speechkit")
    assert not os.path.exists(f"{venv(host)}/tmp.halfstep")


def test_ctrl_c_on_the_laptop_ends_pip_at_once_and_nothing_is_deleted_behind_it(host, held_index):
    change, laptop, agent = begin_and_hold(host, held_index)
    laptop.send_signal(signal.SIGINT)
    laptop.communicate(timeout=60)
    until(lambda: gone(agent), "the agent's end")
    assert not held_index.gate.is_set()
    assert state_of(host) == "unfinished"
    assert os.path.exists(f"{venv(host)}/bin/pip"), "what was made until then is still there"
    held_index.gate.set()
    assert host.act(change.op, change.args)["resumed"] is True
    imports(host, "torch", "speechkit")


def test_a_second_installation_waits_for_the_running_one(host, held_index):
    change, laptop, _ = begin_and_hold(host, held_index)
    doing = []

    def on_event(event):
        doing.append(event.get("doing", ""))
        held_index.gate.set()

    answer = host.act(change.op, change.args, on_event=on_event)
    _, complaint = laptop.communicate(timeout=60)
    assert laptop.returncode == 0, complaint.decode()
    assert doing[0].startswith("waiting for an earlier installation to end")
    assert answer["made"] is False
    imports(host, "torch", "speechkit")


def test_a_package_without_its_record_is_installed_again(host):
    (change,) = environment.plan(site_of(host)).changes
    host.act(change.op, change.args)
    site = next(name for name in os.listdir(f"{venv(host)}/lib"))
    packages = f"{venv(host)}/lib/{site}/site-packages"
    os.unlink(f"{packages}/speechkit-1.2.dist-info/RECORD")
    os.unlink(f"{packages}/speechkit/__init__.py")
    assert host.act(change.op, change.args)["made"] is False
    subprocess.run([f"{venv(host)}/bin/python", "-c", "import speechkit; assert speechkit.answer == 42"], check=True)


def test_byte_code_that_a_full_disk_has_cut_is_removed_when_the_installation_is_resumed(host):
    (change,) = environment.plan(site_of(host)).changes
    host.act(change.op, change.args)
    mark = Path(venv(host), "halfstep.json")
    mark.write_text(mark.read_text().replace('"done"', '"unfinished"'))
    cut = sorted(Path(venv(host), "lib").glob("python*/site-packages/pip/_internal/commands/__pycache__/*.pyc"))
    for file in cut:
        os.truncate(file, 100)
    assert cut and host.act(change.op, change.args)["resumed"] is True
    assert not any(file.exists() and file.stat().st_size == 100 for file in cut)
    imports(host, "torch", "speechkit")


def test_a_venv_whose_python_is_gone_is_created_again(host):
    (change,) = environment.plan(site_of(host)).changes
    host.act(change.op, change.args)
    for name in ("python", "python3"):
        os.unlink(f"{venv(host)}/bin/{name}")
    assert host.act(change.op, change.args)["made"] is True
    imports(host, "torch", "speechkit")


@pytest.mark.root
def test_a_disk_that_fills_up_while_pip_installs_is_exit_22(host, tmp_path):
    if reason := why_no_mounts():
        pytest.skip(reason)
    wheel(tmp_path / "host" / PROJECT.tree / "wheels", "bulky", "1.0", f"data = {os.urandom(40 * 2**20)!r}\n")
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", b"bulky\n")
    (change,) = environment.plan(site_of(host)).changes
    small = tmp_path / "host" / PROJECT.tree / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(small)], check=True)
    try:
        with pytest.raises(RemoteFault, match="could not be installed") as refusal:
            host.act(change.op, {**change.args, "venv": "small/venv"})
    finally:
        subprocess.run(["umount", "--lazy", str(small)], check=True)
    assert refusal.value.exit_code == 22
    assert "No space left on device" in refusal.value.message
