"""Whether an interpreter suits a card, and which venv is planned if not, tested with tables and a fake host."""

import json
from unittest.mock import ANY

import pytest

from fixers.frame.change import HostChange, Plan
from fixers.frame.findings import resolved
from fixers.setup import environment
from fixers.setup.environment import judge_interpreter, venv_of
from fixers.setup.trainer_packages import TRAINER_REQUIREMENTS
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Driver, Interpreter, Torch
from tests.fixers.setup_rig import PROJECT, card, machine, site_at, survey_of
from tests.lab.fake_host import FakeHost

TURING = card()
ASSUMED = card(assumed=True)
PASCAL = card(name="P100", capability=(6, 0))
TREE = f"/home/fake/halfstep/{PROJECT.tree}"
PYTHON = f"{TREE}/venv/bin/python"


def error(message, where=PYTHON, hint=""):
    return Finding("environment", Severity.ERROR, message, where, hint, ExitCode.ENVIRONMENT)


CPU = Torch("2.13.0+cpu", None, ())
NO_CODE = "torch 2.11.0+cu128 contains no code for {}: {}"


def built_for(*architectures, cuda="12.8"):
    return Torch("2.11.0+cu128", cuda, architectures)


@pytest.mark.parametrize(
    ("torch", "gpu", "driver", "message"),
    [
        (None, None, "", f"{PYTHON} has no torch"),
        (None, TURING, "550.1", f"{PYTHON} has no torch"),
        (CPU, None, "", None),
        (CPU, ASSUMED, "", None),
        (CPU, TURING, "550.1", "torch 2.13.0+cpu is a CPU build, but the host has a TITAN RTX"),
        (built_for("sm_75", "sm_80"), TURING, "550.1", None),
        (built_for("sm_70"), TURING, "550.1", None),
        (built_for("sm_75"), ASSUMED, "550.1", None),
        (built_for("sm_75", "sm_80"), PASCAL, "550.1", NO_CODE.format("P100", "sm_75 sm_80")),
        (built_for("sm_80"), TURING, "550.1", NO_CODE.format("TITAN RTX", "sm_80")),
        (built_for("strange"), TURING, "550.1", NO_CODE.format("TITAN RTX", "strange")),
        (built_for("strange", "sm_75"), TURING, "550.1", None),
        (built_for("sm_90a"), card(capability=(9, 0)), "550.1", None),
        (built_for("sm_100", "sm_120"), card(name="B200", capability=(10, 0)), "550.1", None),
        (built_for("sm_120"), card(name="B200", capability=(10, 0)), "550.1", NO_CODE.format("B200", "sm_120")),
        (built_for("compute_50"), PASCAL, "550.1", None),
        (built_for("compute_60"), PASCAL, "550.1", None),
        (built_for("sm_90", "compute_90"), TURING, "550.1", NO_CODE.format("TITAN RTX", "sm_90 compute_90")),
        (built_for("sm_60"), TURING, "550.1", NO_CODE.format("TITAN RTX", "sm_60")),
        (Torch("2.13.0", "12.8", None), TURING, "550.1", None),
        (built_for("sm_75", cuda="13.0"), TURING, "580.65", None),
        (built_for("sm_75", cuda="13.0"), TURING, "", None),
        (built_for("sm_75", cuda="unknown"), TURING, "550.1", None),
        (
            built_for("sm_75", cuda="13.0"),
            TURING,
            "579.1",
            "driver 579.1 does not support CUDA 13.0, which torch needs",
        ),
    ],
)
def test_an_interpreter_is_judged_by_the_card_and_its_driver(torch, gpu, driver, message):
    finding = judge_interpreter(Interpreter(PYTHON, torch=torch), gpu, Driver(driver))
    assert finding == (None if message is None else error(message))


def test_an_interpreter_that_does_not_run_is_reported_with_the_reason():
    finding = judge_interpreter(Interpreter(PYTHON, error="no such file"), None, Driver())
    assert finding == error(f"{PYTHON} does not run: no such file")


@pytest.mark.parametrize(
    ("path", "venv"),
    [
        ("/w/tree/venv/bin/python", "venv"),
        ("/w/tree/envs/a/bin/python3.11", "envs/a"),
        ("venv/bin/python", "venv"),
        ("/usr/bin/python3", None),
        ("/w/trees/venv/bin/python", None),
        ("/w/tree/../x/bin/python", None),
        ("../x/bin/python", None),
        ("python3", None),
        ("/bin/python3", None),
        ("/w/tree/venv/bin/pip", None),
    ],
)
def test_only_a_venv_inside_the_project_is_created(path, venv):
    assert venv_of(path, "/w/tree") == venv


MISSING = Interpreter(PYTHON, error="no such file")
UNFIT = error(f"{PYTHON} does not run: no such file")


def plan_of(setting, gpu=TURING, driver="550.54.15", interpreter=MISSING, **known):
    survey = known.pop("survey", survey_of(interpreter=interpreter, driver=Driver(driver)))
    settings = {"environment": setting} if setting is not None else {}
    host = known.pop("host", FakeHost())
    files = {"requirements.txt": b"", "requirements/train.txt": b""}
    site = {"survey": survey, "gpu": gpu, "settings": settings, "environment": {"PIP_INDEX_URL": "u"}, **known}
    return environment.plan(site_at(host, files, **site))


def change(words, build="cu129", **args):
    plain = {
        "project": PROJECT.key,
        "fixer": "environment",
        "venv": "venv",
        "base": "python3",
        "requirements": ["requirements.txt"],
        "packages": [],
        "torch": "torch==2.13.*",
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


NO_SUCH_CARD = "cpu: the host has no such card"


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
    ("setting", "where", "hint"),
    [
        ({"torch": "v2.13"}, "fixers.environment.torch", 'torch: "2.13"'),
        ({"requirements": "requirement.txt"}, "fixers.environment.requirements", "requirements: requirements.txt"),
        ({"requirements": ["zz"]}, "fixers.environment.requirements", "list only project files that are sent"),
    ],
)
def test_unreadable_requirements_are_an_error_and_nothing_is_created(setting, where, hint):
    plan = plan_of(setting)
    assert plan.changes == ()
    assert plan.findings[0] == UNFIT
    assert plan.findings[1].where == where
    assert plan.findings[1].hint.startswith(hint)


@pytest.mark.parametrize(
    ("mark", "planned"),
    [
        (b'{"state": "unfinished", "recipe": "x"}', True),
        (b"[]", False),
        (b"{", False),
        (None, False),
    ],
)
def test_a_venv_that_has_torch_and_is_unfinished_is_completed(mark, planned):
    files = {f"{TREE}/venv/halfstep.json": mark} if mark is not None else {}
    fits = Interpreter(PYTHON, torch=built_for("sm_75"))
    assert bool(plan_of("create", interpreter=fits, host=FakeHost(files=files)).changes) is planned


def test_the_built_in_trainer_gets_its_packages_and_a_command_of_ones_own_does_not():
    [change] = plan_of("create", config={"command": None}).changes
    assert change.args["packages"] == list(TRAINER_REQUIREMENTS.values())
    assert change.summary.endswith("requirements.txt, 9 packages")
    [change] = plan_of("create", config={"command": ["python", "train.py"]}).changes
    assert change.args["packages"] == []


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


def contents_now(setting="create"):
    return plan_of(setting).changes[0].args["contents"]


@pytest.mark.parametrize(
    ("contents", "setting", "planned"),
    [
        (contents_now(), "create", None),
        (contents_now({"torch": "2.11"}), "create", "install requirements.txt into venv on the host"),
        ("of other requirements", "create", "install requirements.txt into venv on the host"),
        (None, "create", "install requirements.txt into venv on the host"),
        ("x", {"requirements": "requirements/train.txt"}, "install requirements/train.txt into venv on the host"),
        ("x", {"requirements": "no-such.txt"}, None),
    ],
)
def test_a_venv_made_for_other_requirements_gets_the_difference_and_is_kept(contents, setting, planned):
    mark = json.dumps({"state": "done", "recipe": "x", **({} if contents is None else {"contents": contents})})
    host = FakeHost(files={f"{TREE}/venv/halfstep.json": mark.encode()})
    fits = Interpreter(PYTHON, torch=built_for("sm_75"))
    changes = plan_of(setting, interpreter=fits, host=host).changes
    assert [change.summary for change in changes] == ([] if planned is None else [planned])
    assert all(change.args["keep"] is True and change.args["torch"] == "torch" for change in changes)


def test_the_contents_follow_included_files():
    def contents(included):
        files = {"requirements.txt": b"-r more/base.txt\n", "more/base.txt": included}
        return environment.contents_of(site_at(None, files, settings={"environment": "create"}))

    assert contents(b"six") == contents(b"six") != contents(b"idna")
    assert environment.contents_of(site_at(None, {}, settings={})) == ""


SCRIPT = b"import os\nimport numpy as np, yaml\nfrom peft import LoraConfig\nimport torch\nimport own\n"
ONLY_TORCH = "no requirements.txt: only torch is installed"
ALL = "numpy, pyyaml, peft, tensorboard"


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        ({}, {"command": ["python", "train.py"]}, f"{ONLY_TORCH}, but train.py imports {ALL}"),
        ({}, {"command": ["bash", "run.sh"]}, ONLY_TORCH),
        ({"requirements.txt": b""}, {"command": ["python", "train.py"]}, None),
        ({}, {"command": None}, None),
    ],
)  # fmt: skip
def test_without_requirements_the_plan_names_every_module_that_will_be_missing(files, config, message):
    project = {"train.py": SCRIPT, "own.py": b"from torch.utils.tensorboard import SummaryWriter\n", **files}
    survey = survey_of(interpreter=MISSING, driver=Driver(""))
    site = site_at(FakeHost(), project, survey=survey, settings={"environment": "create"}, config=config)
    warnings = [one for one in environment.plan(site).findings if one.severity is Severity.WARNING]
    assert [one.message for one in warnings] == ([] if message is None else [message])
    if message and "imports" in message:
        assert warnings[0].hint == f"write requirements.txt, one package a line: {ALL}"
