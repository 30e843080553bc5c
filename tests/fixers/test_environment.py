"""The environment fixer: the choice of a torch build, and a real venv from local wheels, whole or not at all."""

import subprocess
import sys
import zipfile

import pytest

from fixers import environment
from fixers.environment import judge_interpreter, venv_of
from fixers.torch_builds import BUILDS, Choice, choose_build, driver_carries, runs_on
from remote.errors import RemoteFault
from remote.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Driver, Gpu, Interpreter, Torch
from tests.fixers.setup_rig import PROJECT, site_at, survey_of

TITAN_RTX = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * 2**30)
P100 = Gpu(0, "GPU-2", "P100", (6, 0), 16 * 2**30)
ARCHITECTURES = "class cuda:\n    @staticmethod\n    def get_arch_list():\n        return {}\n"


@pytest.mark.parametrize(
    ("capability", "driver", "newest", "choice"),
    [
        ((7, 5), "580.95.05", (2, 13), Choice((2, 13), "cu132")),
        ((7, 5), "550.54.15", (2, 13), Choice((2, 13), "cu129")),
        ((7, 5), "535.183.01", (2, 11), Choice((2, 11), "cu128")),
        ((7, 5), "450.80.02", (2, 13), None),
        ((7, 0), "580.95.05", (2, 13), Choice((2, 13), "cu126")),
        ((7, 0), "580.95.05", (2, 10), Choice((2, 10), "cu128")),
        ((6, 0), "580.95.05", (2, 13), Choice((2, 13), "cu126")),
        ((8, 9), "550.54.15", (2, 13), Choice((2, 13), "cu129")),
        ((9, 0), "525.60.13", (2, 8), Choice((2, 8), "cu128")),
        ((12, 0), "550.0", (2, 10), Choice((2, 10), "cu128")),
        ((3, 7), "580.95.05", (2, 13), None),
        ((7, 5), "580.95.05", (2, 5), None),
        ((7, 5), "", (2, 13), None),
    ],
)
def test_a_build_is_chosen_by_card_driver_and_release(capability, driver, newest, choice):
    assert choose_build(capability, driver, newest) == choice


def test_every_build_runs_on_what_it_was_built_for_and_no_two_rows_overlap():
    for build in BUILDS:
        assert build.since <= build.until
        assert all(runs_on(build.architectures, capability) for capability in build.architectures)
        twins = [b for b in BUILDS if b.tag == build.tag and b is not build]
        assert all(b.until < build.since or build.until < b.since for b in twins)


@pytest.mark.parametrize(
    ("driver", "cuda", "carried"),
    [("525.60.13", 12, True), ("524.9", 12, False), ("580", 13, True), ("579.1", 13, False), ("?", 12, False)],
)
def test_a_driver_carries_the_families_from_its_branch_on(driver, cuda, carried):
    assert driver_carries(driver, cuda) is carried


def python(**known):
    return Interpreter(**{"path": "/x/venv/bin/python", "version": (3, 11, 7), **known})


CUDA_TORCH = Torch("2.11.0+cu128", "12.8", ("sm_75", "sm_80"))


@pytest.mark.parametrize(
    ("interpreter", "gpu", "driver", "words"),
    [
        (python(error="no such file"), None, Driver(), "does not run"),
        (python(), None, Driver(), "has no torch"),
        (python(torch=Torch("2.13.0+cpu", None, ())), None, Driver(), None),
        (python(torch=Torch("2.13.0+cpu", None, ())), TITAN_RTX, Driver("550.1"), "CPU build"),
        (python(torch=CUDA_TORCH), TITAN_RTX, Driver("550.1"), None),
        (python(torch=CUDA_TORCH), P100, Driver("550.1"), "no code for P100"),
        (python(torch=Torch("2.0", "12.8", ("compute_50",))), P100, Driver("550.1"), None),
        (
            python(torch=Torch("2.13.0+cu130", "13.0", ("sm_75",))),
            TITAN_RTX,
            Driver("550.1"),
            "does not carry CUDA 13.0",
        ),
        (python(torch=Torch("2.13.0", "12.8", None)), TITAN_RTX, Driver("550.1"), None),
    ],
)
def test_an_interpreter_is_judged_by_the_card_and_its_driver(interpreter, gpu, driver, words):
    finding = judge_interpreter(interpreter, gpu, driver)
    assert (finding is None) if words is None else (words in finding.message)


@pytest.mark.parametrize(
    ("path", "venv"),
    [
        ("/w/tree/venv/bin/python", "venv"),
        ("/w/tree/envs/a/bin/python3.11", "envs/a"),
        ("venv/bin/python", "venv"),
        ("/usr/bin/python3", None),
        ("/w/tree/../x/bin/python", None),
        ("python3", None),
        ("/w/tree/venv/bin/pip", None),
    ],
)
def test_only_a_venv_inside_the_project_is_ours_to_make(path, venv):
    assert venv_of(path, "/w/tree") == venv


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


def test_a_card_that_no_build_is_for_is_told():
    k80 = Gpu(0, "GPU-3", "K80", (3, 7), 12 * 2**30)
    survey = survey_of(interpreter=Interpreter("venv/bin/python", error="x"), driver=Driver("470.1"), gpus=(k80,))

    class Somewhere:
        workdir = "/w"

    plan = environment.plan(site_at(Somewhere(), survey=survey, gpu=k80, wishes={"environment": "create"}))
    assert plan.empty
    assert "no torch build from 2.8 on is for K80 (3.7)" in plan.findings[1].message
