"""The venv that is planned if the interpreter does not suit the card, tested with a fake host."""

from unittest.mock import ANY

import pytest

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import resolved
from fixers.setup.environment import MOST_MARK_BYTES
from remote.protocol.machine import Interpreter
from tests.fixers.setup.planned_environment import (
    ASSUMED,
    CPU,
    MISSING,
    PASCAL,
    PYTHON,
    TREE,
    TURING,
    UNFIT,
    built_for,
    error,
    plan_of,
)
from tests.fixers.setup_rig import PROJECT, card, machine, survey_of
from tests.lab.fake_host import FakeHost


def change(words, build="cu129", **args):
    plain = {
        "project": PROJECT.key,
        "fixer": "environment",
        "venv": "venv",
        "base": "python3",
        "requirements": ["requirements.txt"],
        "packages": [],
        "torch": "torch==2.13.*",
        "companions": [],
        "index": "",
        "build_index": f"https://download.pytorch.org/whl/{build}" if build else "",
        "find_links": "",
        "no_index": False,
        "capability": [7, 5],
        "environment": {"PIP_INDEX_URL": "u"},
        "left_out": ["flash-attn", "flash_attn", "flash-attn-3", "flash_attn_3"],
        "laptop_root": "",
        "contents": ANY,
        "keep": False,
    }
    summary = f"create venv on the host with {words}"
    return HostChange("environment", summary, "fix.environment.create", {**plain, **args}, undo="fix.undo")


NEWEST = "torch==2.13.* (cu129), requirements.txt"


NO_CARD = {"torch": "torch", "capability": []}


ON_CPU = "torch (cpu), requirements.txt"


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("create", change(NEWEST)),
        (True, change(NEWEST)),
        ({"base": "python3.11"}, change(NEWEST, base="python3.11")),
        ({"torch": "2.11"}, change("torch==2.11.* (cu128), requirements.txt", "cu128", torch="torch==2.11.*")),
        ({"torch": "2.10.1"}, change("torch==2.10.1 (cu128), requirements.txt", "cu128", torch="torch==2.10.1")),
        ({"torch": 2}, change(NEWEST)),
        (
            {"torch": ">=2.4,<2.12"},
            change("torch>=2.4,<2.12,==2.11.* (cu128), requirements.txt", "cu128", torch="torch>=2.4,<2.12,==2.11.*"),
        ),
        (
            {"torch": "torch==2.13.0+cu126"},
            change("torch==2.13.0+cu126 (cu126), requirements.txt", "cu126", torch="torch==2.13.0+cu126"),
        ),
        (
            {"torch": "torch @ https://example.org/torch-2.13.0.whl"},
            change(
                "torch @ https://example.org/torch-2.13.0.whl, requirements.txt",
                "",
                torch="torch @ https://example.org/torch-2.13.0.whl",
            ),
        ),
        ({"index": "u/{build}/w"}, change("torch==2.13.*, requirements.txt", "", index="u/cu129/w")),
        ({"find_links": "wheels", "no_index": True}, change(NEWEST, find_links="wheels", no_index=True)),
        (
            {"requirements": "requirements/train.txt"},
            change("torch==2.13.* (cu129), requirements/train.txt", requirements=["requirements/train.txt"]),
        ),
        (
            {"requirements": ["requirements/train.txt", "requirements.txt"]},
            change(
                "torch==2.13.* (cu129), requirements/train.txt, requirements.txt",
                requirements=["requirements/train.txt", "requirements.txt"],
            ),
        ),
        ({"requirements": []}, change("torch==2.13.* (cu129)", requirements=[])),
    ],
)
def test_a_venv_is_created_as_configured(setting, wanted):
    assert plan_of(setting) == Plan((resolved(UNFIT),), (wanted,))


NO_SUCH_CARD = "cpu: the host has no TITAN RTX"


@pytest.mark.parametrize(
    ("gpu", "driver", "setting", "wanted"),
    [
        (PASCAL, "580.1", "create", change("torch==2.13.* (cu126), requirements.txt", "cu126", capability=[6, 0])),
        (TURING, "580.1", {"index": "{build}"}, change("torch==2.13.*, requirements.txt", "", index="cu132")),
        (None, "", "create", change(ON_CPU, "cpu", **NO_CARD)),
        (None, "550.1", {"index": "{build}"}, change("torch, requirements.txt", "", **NO_CARD, index="cpu")),
        (ASSUMED, "550.1", "create", change("torch, requirements.txt", "", **NO_CARD)),
        (ASSUMED, "", "create", change(f"torch ({NO_SUCH_CARD}), requirements.txt", "cpu", **NO_CARD)),
        (
            ASSUMED,
            "",
            {"torch": "2.13.0"},
            change(f"torch==2.13.0 ({NO_SUCH_CARD}), requirements.txt", "cpu", torch="torch==2.13.0", capability=[]),
        ),
    ],
)
def test_torch_is_chosen_for_the_card_of_the_survey(gpu, driver, setting, wanted):
    assert plan_of(setting, gpu, driver) == Plan((resolved(UNFIT),), (wanted,))


@pytest.mark.parametrize("setting", [None, "auto", "off", False, {}])
def test_nothing_is_created_unless_requested(setting):
    assert plan_of(setting) == Plan()


@pytest.mark.parametrize("known", [{"survey": None}, {"project": None}, {"host": None}])
def test_no_venv_is_planned_without_a_project_on_a_host(known):
    assert plan_of("create", **known) == Plan()


def test_an_interpreter_that_supports_the_card_causes_no_finding():
    assert plan_of("create", interpreter=Interpreter(PYTHON, torch=built_for("sm_75"))) == Plan()


@pytest.mark.parametrize(
    ("mark", "planned"),
    [
        (b'{"state": "unfinished", "recipe": "x"}', True),
        (b"[]", False),
        (b"{", False),
        (b"[" * 100_000, False),
        (b'{"state": "unfinished", "x": [' + b"[]," * 10**6 + b"[]]}", False),
        (b'{"state": "unfinished"}' + b" " * MOST_MARK_BYTES, False),
        (None, False),
    ],
)
def test_a_venv_that_has_torch_and_is_unfinished_is_completed(mark, planned):
    files = {f"{TREE}/venv/halfstep.json": mark} if mark is not None else {}
    fits = Interpreter(PYTHON, torch=built_for("sm_75"))
    assert bool(plan_of("create", interpreter=fits, host=FakeHost(files=files)).changes) is planned


def test_a_host_other_than_linux_gets_the_default_torch():
    survey = survey_of(interpreter=MISSING, machine=machine(system="Darwin 25.1.0"))
    [change] = plan_of("create", gpu=None, survey=survey).changes
    assert change.args["build_index"] == ""


def impossible(card_words, driver):
    message = f"no torch build since 2.8 that the config allows supports {card_words} with driver {driver}"
    return error(message, hint="update the driver, or create the environment by hand")


@pytest.mark.parametrize(
    ("gpu", "driver", "setting", "finding"),
    [
        (card(name="K80", capability=(3, 7)), "470.1", "create", impossible("K80 (3.7)", "470.1")),
        (TURING, "", "create", impossible("TITAN RTX (7.5)", "none")),
        (TURING, "550.1", {"torch": "2.7"}, impossible("TITAN RTX (7.5)", "550.1")),
    ],
)
def test_a_card_that_no_build_supports_is_reported(gpu, driver, setting, finding):
    assert plan_of(setting, gpu, driver) == Plan((UNFIT, finding))


def test_an_interpreter_outside_the_project_is_reported_and_left():
    outside = Interpreter("/usr/bin/python3", error="gone")
    unfit = error("/usr/bin/python3 does not run: gone", "/usr/bin/python3")
    message = "/usr/bin/python3 is outside the project, so no venv is created there"
    finding = error(message, "/usr/bin/python3", "python: venv/bin/python in the host file")
    assert plan_of("create", interpreter=outside, python="/usr/bin/python3") == Plan((unfit, finding))
    assert plan_of("create", None, "", outside, python="/usr/bin/python3") == Plan((unfit, finding))


def test_without_a_configured_interpreter_the_venv_is_made_in_the_project():
    for outside in (Interpreter("/usr/bin/python3"), Interpreter("/usr/bin/python3", torch=CPU)):
        (planned,) = plan_of("create", interpreter=outside).changes
        assert planned.args["venv"] == "venv"


@pytest.mark.parametrize("base", ["./evil.sh", "tools/python", "../evil.sh", "~/clone/evil.sh"])
def test_SE_a_base_interpreter_of_the_project_is_an_error_of_the_plan(base):
    plan = plan_of({"base": base})
    assert plan.empty and "is a file of the project" in plan.findings[-1].message
    assert plan.findings[-1].hint == "base: python3"
