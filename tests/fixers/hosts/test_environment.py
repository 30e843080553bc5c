"""The environment fixer: the choice of a torch build, and a real venv from local wheels, whole or not at all."""

import subprocess
import sys
import zipfile

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Driver, Gpu, Interpreter
from tests.fixers.setup_rig import PROJECT, site_at, survey_of

TITAN_RTX = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * 2**30)
P100 = Gpu(0, "GPU-2", "P100", (6, 0), 16 * 2**30)
ARCHITECTURES = "class cuda:\n    @staticmethod\n    def get_arch_list():\n        return {}\n"


def wheel(folder, name, version, code, requires=()):
    """A wheel as pip takes it, made by hand."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", code)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


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


def site_of(host, gpu=TITAN_RTX, **wish):
    survey = survey_of(
        interpreter=Interpreter(f"{host.workdir}/{PROJECT.tree}/venv/bin/python", error="no such file"),
        driver=Driver("550.54.15"),
        gpus=(gpu,),
    )
    wishes = {"environment": {"base": sys.executable, "find_links": "wheels", "no_index": True, **wish}}
    return site_at(host, {"requirements.txt": b"speechkit>=1\n"}, survey=survey, gpu=gpu, wishes=wishes)


def venv(host):
    return f"{host.workdir}/{PROJECT.tree}/venv"


def test_nothing_is_made_unless_it_is_asked_for(host):
    site = site_of(host)
    for wish in ({}, {"environment": "auto"}, {"environment": "off"}):
        assert environment.plan(site_at(host, survey=site.survey, gpu=site.gpu, wishes=wish)) == environment.Plan()


def test_a_venv_is_made_whole_made_once_and_taken_away_again(host, tmp_path):
    plan = environment.plan(site_of(host))
    assert [finding.severity for finding in plan.findings] == [Severity.INFO]
    (change,) = plan.changes
    assert "torch 2.13 (cu129)" in change.summary
    assert host.act(change.op, change.args)["made"] is True
    said = subprocess.run(
        [f"{venv(host)}/bin/python", "-c", "import torch, speechkit; print(speechkit.answer, torch.__path__[0])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout.startswith(f"42 {venv(host)}")
    assert host.act(change.op, change.args)["made"] is False
    assert host.act("fix.undo", {"project": PROJECT.key, "fixer": "environment"}) == {"restored": [venv(host)]}
    assert host.list_files(f"{PROJECT.tree}/venv") == ()


def test_a_requirement_that_cannot_be_had_leaves_nothing(host):
    host.write_bytes(f"{PROJECT.tree}/requirements.txt", b"speechkit>=1\nno-such-package\n")
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="no-such-package") as refusal:
        host.act(change.op, change.args)
    assert refusal.value.exit_code == 20
    assert host.list_files(f"{PROJECT.tree}/venv") == ()


def test_a_torch_that_cannot_run_on_the_card_leaves_nothing(host):
    (change,) = environment.plan(site_of(host, gpu=P100)).changes
    with pytest.raises(RemoteFault, match="no code for capability 6"):
        host.act(change.op, change.args)
    assert host.list_files(f"{PROJECT.tree}/venv") == ()


def test_an_environment_of_the_users_is_never_touched(host):
    host.write_bytes(f"{PROJECT.tree}/venv/bin/python", b"mine")
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="was not made by this"):
        host.act(change.op, change.args)
    assert host.act("fix.undo", {"project": PROJECT.key, "fixer": "environment"}) == {"restored": []}
    assert host.read_bytes(f"{PROJECT.tree}/venv/bin/python") == b"mine"


def test_one_that_was_cut_while_it_was_made_is_made_anew(host):
    host.write_bytes(f"{PROJECT.tree}/venv/halfstep.json", b'{"state": "unfinished", "recipe": "x"}')
    host.write_bytes(f"{PROJECT.tree}/venv/bin/python", b"half of it")
    (change,) = environment.plan(site_of(host)).changes
    assert host.act(change.op, change.args)["made"] is True
    assert subprocess.run([f"{venv(host)}/bin/python", "-c", "import torch"], check=True).returncode == 0
