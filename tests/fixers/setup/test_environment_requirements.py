"""The requirements from which a venv is planned, tested with a fake host."""

import json

import pytest

from fixers.setup import environment
from fixers.setup.trainer_packages import TRAINER_REQUIREMENTS
from remote.protocol.findings import Severity
from remote.protocol.machine import Driver, Interpreter
from tests.fixers.setup.planned_environment import (
    MISSING,
    PYTHON,
    TREE,
    UNFIT,
    built_for,
    plan_of,
)
from tests.fixers.setup_rig import site_at, survey_of
from tests.lab.fake_host import FakeHost


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


def test_the_built_in_trainer_gets_its_packages_and_a_command_of_ones_own_does_not():
    [change] = plan_of("create", config={"command": None}).changes
    assert change.args["packages"] == list(TRAINER_REQUIREMENTS.values())
    assert change.summary.endswith("requirements.txt, 9 packages")
    [change] = plan_of("create", config={"command": ["python", "train.py"]}).changes
    assert change.args["packages"] == []


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
TRACKED = SCRIPT + b"TrainingArguments(report_to=['tensorboard'])\n"
ONLY_TORCH = "no requirements.txt: only torch would be installed"
COMMAND = ["python", "train.py"]
ALL = "numpy, pyyaml, peft, tensorboard"
LACKING = f"{ONLY_TORCH}, but train.py needs {ALL}"


@pytest.mark.parametrize(
    ("files", "config", "severity", "message"),
    [
        ({}, {"command": COMMAND}, Severity.ERROR, LACKING),
        ({}, {"command": COMMAND, "env": {"PYTHONPATH": "/opt/packages"}}, Severity.WARNING, f"{ONLY_TORCH}, but "),
        ({"train.py": b"import torch\n"}, {"command": COMMAND}, Severity.WARNING, ONLY_TORCH),
        ({"train.py": TRACKED, "own.py": b""}, {"command": COMMAND}, Severity.ERROR, LACKING),
        ({}, {"command": ["bash", "run.sh"]}, Severity.WARNING, ONLY_TORCH),
        ({"requirements.txt": b""}, {"command": COMMAND}, None, None),
        ({}, {"command": None}, None, None),
    ],
)  # fmt: skip
def test_without_requirements_nothing_is_installed_if_the_script_would_end_at_an_import(
    files, config, severity, message
):
    project = {"train.py": SCRIPT, "own.py": b"from torch.utils.tensorboard import SummaryWriter\n", **files}
    survey = survey_of(interpreter=MISSING, driver=Driver(""))
    site = site_at(FakeHost(), project, survey=survey, settings={"environment": "create"}, config=config)
    planned = environment.plan(site)
    found = [one for one in planned.findings if ONLY_TORCH in one.message]
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert bool(planned.changes) is (severity is not Severity.ERROR)
    if severity is Severity.ERROR:
        assert (found[0].message, found[0].exit_code) == (message, 20)
        assert found[0].hint == f"write requirements.txt, one package a line: {ALL}"
    elif found:
        assert found[0].message.startswith(message)
