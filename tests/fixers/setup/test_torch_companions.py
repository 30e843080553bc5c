"""The torch that is chosen beside the torchaudio and torchvision of the requirements."""

import pytest

from fixers.setup import environment
from fixers.setup.project_packages import ProjectPackages
from fixers.setup.torch_companions import newest_release, read_demands
from fixers.setup.torch_requirement import TorchRequirement, parse_torch_requirement
from remote.protocol.machine import Driver, Interpreter, Torch
from tests.fixers.setup.planned_environment import ASSUMED, MISSING, PASCAL, PYTHON, TREE, TURING, built_for
from tests.fixers.setup_rig import MemoryTree, card, site_at, survey_of
from tests.lab.fake_host import FakeHost


def plan_of(requirements, gpu=TURING, driver="550.54.15", setting="create", **known):
    interpreter = known.pop("interpreter", MISSING)
    survey = survey_of(interpreter=interpreter, driver=Driver(driver))
    files = {"requirements.txt": requirements.encode(), **known.pop("files", {})}
    settings = {"environment": setting}
    return environment.plan(
        site_at(known.pop("host", FakeHost()), files, survey=survey, gpu=gpu, settings=settings, **known)
    )


def chosen(plan):
    (change,) = plan.changes
    return change.args["torch"], change.args["companions"], change.args["build_index"].rpartition("/")[2]


OF_2_11 = ["torchaudio==2.11.*"]
BELOW_2_12 = ("torch<2.12", ["torchaudio<2.12"], "cpu")


@pytest.mark.parametrize(
    ("requirements", "gpu", "driver", "setting", "wanted"),
    [
        ("torch\ntorchaudio\n", TURING, "550.1", "create", ("torch==2.11.*", OF_2_11, "cu128")),
        ("torch\ntorchaudio\n", TURING, "580.1", "create", ("torch==2.11.*", OF_2_11, "cu130")),
        ("Torch_Audio\ntorchaudio # io\n", PASCAL, "580.1", "create", ("torch==2.11.*", OF_2_11, "cu126")),
        ("torchaudio==2.9.1\n", TURING, "550.1", "create", ("torch==2.9.*", ["torchaudio==2.9.*"], "cu128")),
        ("torch<2.11\ntorchaudio\n", TURING, "550.1", "create", ("torch==2.10.*", ["torchaudio==2.10.*"], "cu128")),
        ("torch==2.13.0\ntorchaudio\n", TURING, "580.1", "create", ("torch==2.13.*", OF_2_11, "cu130")),
        ("torchaudio\n", TURING, "580.1", {"torch": "2.13"}, ("torch==2.13.*", OF_2_11, "cu130")),
        ("torchaudio\n", TURING, "580.1", {"torch": "2.9"}, ("torch==2.9.*", ["torchaudio==2.9.*"], "cu130")),
        ("torch\n", TURING, "580.1", "create", ("torch==2.13.*", [], "cu132")),
        ("torch==2.9.1\nnumpy\n", TURING, "580.1", "create", ("torch==2.9.*", [], "cu130")),
        ("torch==2.9.1+cu126\n", TURING, "580.1", "create", ("torch==2.9.*", [], "cu126")),
        ("torchvision==0.25.0\n", TURING, "550.1", "create", ("torch==2.10.*", [], "cu128")),
        ("torchvision\n", TURING, "550.1", "create", ("torch==2.13.*", [], "cu129")),
        ("torchaudio-augment\ntorch_audiomentations\n", TURING, "550.1", "create", ("torch==2.13.*", [], "cu129")),
        ("# torchaudio\n", TURING, "550.1", "create", ("torch==2.13.*", [], "cu129")),
        ("torch==2.9.1; python_version < '3.9'\n", TURING, "550.1", "create", ("torch==2.13.*", [], "cu129")),
        ("torch\ntorchaudio\n", None, "", "create", BELOW_2_12),
        ("torch\ntorchaudio\n", ASSUMED, "", "create", BELOW_2_12),
        ("torch==2.4.0\ntorchaudio\n", None, "", "create", ("torch<2.5", ["torchaudio<2.5"], "cpu")),
        ("torchaudio\n", None, "", {"torch": "2.9"}, ("torch==2.9.*", ["torchaudio<2.10"], "cpu")),
        ("torchaudio\n", None, "", {"torch": "2.13.0+cpu"}, ("torch==2.13.0+cpu", ["torchaudio<2.12"], "cpu")),
        ("torch==1.13.1\ntorchaudio==0.13.1\n", None, "", "create", ("torch<1.14", [], "cpu")),
        ("torch\nnumpy\n", None, "", "create", ("torch", [], "cpu")),
    ],
)
def test_torch_is_chosen_so_that_the_required_torchaudio_exists_for_it(requirements, gpu, driver, setting, wanted):
    assert chosen(plan_of(requirements, gpu, driver, setting)) == wanted


@pytest.mark.parametrize("torch", ["torchaudio", "-r more.txt\n", "torchaudio>=2.0 \\\n  --hash=sha256:00"])
def test_torchaudio_counts_in_each_form_of_a_requirement(torch):
    plan = plan_of(f"torch\n{torch}\n", files={"more.txt": b"torchaudio\n"})
    assert chosen(plan) == ("torch==2.11.*", OF_2_11, "cu128")
    assert plan.changes[0].summary == (
        "create venv on the host with torch==2.11.* (cu128), torchaudio==2.11.*, requirements.txt"
    )


@pytest.mark.parametrize(
    ("requirements", "setting", "named"),
    [
        ("numpy\ntorch==2.4.0\ntorchaudio==2.5.0\n", "create", "torch==2.4.0 (requirements.txt:2), torchaudio==2.5.0"),
        ("torch>=2.12\ntorchaudio<2.11\n", "create", "torchaudio<2.11 (requirements.txt:2)"),
        ("torch==2.4.0\ntorchvision==0.20.0\n", "create", "torchvision==0.20.0 (requirements.txt:2)"),
        ("torch==2.4.0\n-c pins.txt\n", "create", "torch==2.5.0 (pins.txt:2)"),
        ("torch==2.4.0\n", {"torch": "2.9"}, "fixers.environment.torch is torch==2.9.*"),
    ],
)
@pytest.mark.parametrize(("gpu", "driver"), [(TURING, "580.1"), (None, "")])
def test_requirements_that_exclude_each_other_are_an_error_before_the_installation(
    requirements, setting, named, gpu, driver
):
    plan = plan_of(requirements, gpu, driver, setting, files={"pins.txt": b"torchaudio==2.2.0\ntorch==2.5.0\n"})
    assert plan.changes == ()
    assert plan.findings[-1].message.startswith("no release of torch fits all requirements: ")
    assert named in plan.findings[-1].message and plan.findings[-1].exit_code == 20


PAIRS = [(13, "0.13.1", "0.14.1"), (12, "0.12.1", "0.13.1"), (8, "0.8.1", "0.9.1"), (4, "0.4.0", "0.5.0")]
PAIRS_OF_2 = [(0, "2.0.1", "0.15.2"), (1, "2.1.2", "0.16.2"), (6, "2.6.0", "0.21.0"), (11, "2.11.0", "0.26.0")]


@pytest.mark.parametrize(
    ("torch", "audio", "vision"),
    [((1, minor), *more) for minor, *more in PAIRS] + [((2, minor), *more) for minor, *more in PAIRS_OF_2],
)
def test_the_published_triples_of_torch_torchaudio_and_torchvision_fit_each_other(torch, audio, vision):
    pins = f"torch=={torch[0]}.{torch[1]}.1\ntorchaudio=={audio}\ntorchvision=={vision}\n"
    tree = MemoryTree({"requirements.txt": pins.encode()})
    demands = read_demands(tree, ProjectPackages(("requirements.txt",)))
    assert len(demands) == 3
    assert newest_release(TorchRequirement("torch"), demands) == torch


def test_a_card_that_no_fitting_build_supports_is_reported_with_the_requirement():
    plan = plan_of("torchaudio==2.4.0\n", TURING, "580.1")
    assert "and torchaudio==2.4.0 (requirements.txt:1), supports TITAN RTX" in plan.findings[-1].message
    blackwell = plan_of("torchaudio==2.4.0\n", card(name="B200", capability=(10, 0)), "580.1")
    assert blackwell.changes == ()


@pytest.mark.parametrize(
    ("installed", "requirements", "setting", "wanted"),
    [
        (Torch("2.11.0+cu128", "12.8", ("sm_75",)), "torchaudio\n", "create", ("torch", OF_2_11)),
        (Torch("2.13.0+cu129", "12.9", ("sm_75",)), "torchaudio\n", "create", ("torch==2.11.*", OF_2_11)),
        (Torch("2.13.0+cu130", "13.0", ("sm_75",)), "torchaudio\n", "create", ("torch", OF_2_11)),
        (Torch("2.9.1+cu128", "12.8", ("sm_75",)), "torchaudio\n", "create", ("torch", ["torchaudio==2.9.*"])),
        (Torch("2.11.0+cu128", "12.8", ("sm_75",)), "torchaudio\n", {"torch": "2.9"},
         ("torch==2.9.*", ["torchaudio==2.9.*"])),
        (Torch("2.13.0+cu129", "12.9", ("sm_75",)), "numpy\n", "create", ("torch", [])),
    ],
)  # fmt: skip
def test_a_torch_that_is_installed_is_changed_only_if_the_new_requirements_need_another(
    installed, requirements, setting, wanted
):
    host = FakeHost(files={f"{TREE}/venv/halfstep.json": b'{"state": "done", "contents": "x"}'})
    interpreter = Interpreter(PYTHON, torch=installed)
    plan = plan_of(requirements, TURING, "580.1", setting, host=host, interpreter=interpreter)
    (change,) = plan.changes
    assert (change.args["torch"], change.args["companions"], change.args["keep"]) == (*wanted, True)


def test_an_environment_that_fits_is_left():
    assert plan_of("torch\ntorchaudio\n", interpreter=Interpreter(PYTHON, torch=built_for("sm_75"))).changes == ()
    assert parse_torch_requirement("2.9").until((2, 9)) == "torch==2.9.*"
