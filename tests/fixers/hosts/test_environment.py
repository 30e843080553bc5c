"""The environment fixer: the choice of a torch build, and a real venv from local wheels, also interrupted."""

import json
import os
import signal
import subprocess
import sys

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Driver, Gpu, Interpreter
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.mounts import why_no_mounts
from tests.lab.package_index import installed_wheel, slow_index, wheel
from tests.lab.wait import until

TITAN_RTX = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * 2**30)
P100 = Gpu(0, "GPU-2", "P100", (6, 0), 16 * 2**30)
ARCHITECTURES = "class cuda:\n    @staticmethod\n    def get_arch_list():\n        return {}\n"


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(tmp_path / "host"))
    wheels = tmp_path / "host" / PROJECT.tree / "wheels"
    wheels.mkdir(parents=True)
    wheel(wheels, "torch", "2.13.1", ARCHITECTURES.format(["sm_75", "sm_80"]))
    wheel(wheels, "speechkit", "1.2", "answer = 42\n")
    (wheels.parent / "requirements.txt").write_text("speechkit>=1\n")
    yield agent
    agent.close()


def site_of(host, gpu=TITAN_RTX, **setting):
    survey = survey_of(
        interpreter=Interpreter(f"{host.workdir}/{PROJECT.tree}/venv/bin/python", error="no such file"),
        driver=Driver("550.54.15"),
        gpus=(gpu,),
    )
    settings = {"environment": {"base": sys.executable, "find_links": "wheels", "no_index": True, **setting}}
    return site_at(host, {"requirements.txt": b"speechkit>=1\n"}, survey=survey, gpu=gpu, settings=settings)


def venv(host):
    return f"{host.workdir}/{PROJECT.tree}/venv"


def state_of(host):
    return json.loads(host.read_bytes(f"{PROJECT.tree}/venv/halfstep.json"))["state"]


def imports(host, *packages):
    """Check that the venv's Python imports the packages."""
    subprocess.run([f"{venv(host)}/bin/python", "-c", f"import {', '.join(packages)}"], check=True)


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


def test_a_venv_whose_python_is_gone_is_created_again(host):
    (change,) = environment.plan(site_of(host)).changes
    host.act(change.op, change.args)
    for name in ("python", "python3"):
        os.unlink(f"{venv(host)}/bin/{name}")
    assert host.act(change.op, change.args)["made"] is True
    imports(host, "torch", "speechkit")


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


DEBIAN = """The virtual environment was not created successfully because ensurepip is not
available.  On Debian/Ubuntu systems, you need to install the python3-venv
package using the following command.

    apt install python3.11-venv

You may need to use sudo with that command.  After installing the python3-venv
package, recreate your virtual environment.

Failing command: /w/tree/venv/bin/python3
"""


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (DEBIAN, "python3.11-venv"),
        ("/usr/bin/python3: No module named venv", "python3-venv"),
    ],
    ids=["without ensurepip", "without venv"],
)
def test_for_a_python_without_venv_the_package_to_install_is_named(host, tmp_path, words, package):
    base = tmp_path / "python3"
    base.write_text(f"#!/bin/sh\ncat <<'EOF'\n{words}\nEOF\nexit 1\n")
    base.chmod(0o755)
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {**change.args, "environment": {"PATH": "/usr/bin:/bin"}}
    sudo = "" if os.geteuid() == 0 else "sudo "
    hint = f"{sudo}apt-get update && {sudo}apt-get install -y {package}"
    with pytest.raises(RemoteFault, match="cannot create a venv") as refusal:
        host.act(change.op, args)
    assert (refusal.value.hint, refusal.value.exit_code) == (hint, 20)


NO_ENSUREPIP = f"""#!/bin/sh
case "$*" in
"-m venv --without-pip "*) exec {sys.executable} "$@" ;;
"-m venv "*) echo "ensurepip is not available."; exit 1 ;;
esac
exec {sys.executable} "$@"
"""


def test_without_ensurepip_the_pip_of_the_base_interpreter_installs_pip(host, tmp_path):
    base = tmp_path / "python3"
    base.write_text(NO_ENSUREPIP)
    base.chmod(0o755)
    installed_wheel(tmp_path, "pip")
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {
        **change.args,
        "environment": {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
    }
    assert host.act(change.op, args)["made"] is True
    imports(host, "torch", "speechkit")


def test_without_ensurepip_the_uv_of_the_home_folder_creates_the_venv(host, tmp_path):
    base, uv = tmp_path / "python3", tmp_path / "home" / ".local" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    base.write_text("#!/bin/sh\necho ensurepip is not available.\nexit 1\n")
    uv.write_text(f'#!/bin/sh\nfor last; do :; done\nexec {sys.executable} -m venv "$last"\n')
    for program in (base, uv):
        program.chmod(0o755)
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {**change.args, "environment": {"PATH": "/usr/bin:/bin", "HOME": str(uv.parents[2])}}
    assert host.act(change.op, args)["made"] is True
    imports(host, "torch", "speechkit")


def test_a_missing_base_interpreter_is_named(host):
    (change,) = environment.plan(site_of(host, base="python9.9")).changes
    with pytest.raises(RemoteFault, match=r"python9\.9: No such file") as refusal:
        host.act(change.op, change.args)
    assert refusal.value.exit_code == 20


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
