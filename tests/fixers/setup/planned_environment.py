"""Interpreters and cards, and the plan for an interpreter that does not run."""

from fixers.setup import environment
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Driver, Interpreter, Torch
from tests.fixers.setup_rig import PROJECT, card, site_at, survey_of
from tests.lab.fake_host import FakeHost

TURING = card()
ASSUMED = card(assumed=True)
PASCAL = card(name="P100", capability=(6, 0))
TREE = f"/home/fake/halfstep/{PROJECT.tree}"
PYTHON = f"{TREE}/venv/bin/python"


def error(message, where=PYTHON, hint=""):
    return Finding("environment", Severity.ERROR, message, where, hint, ExitCode.ENVIRONMENT)


CPU = Torch("2.13.0+cpu", None, ())


def built_for(*architectures, cuda="12.8"):
    return Torch("2.11.0+cu128", cuda, architectures)


MISSING = Interpreter(PYTHON, error="no such file")
UNFIT = error(f"{PYTHON} does not run: no such file")


def plan_of(setting, gpu=TURING, driver="550.54.15", interpreter=MISSING, **known):
    survey = known.pop("survey", survey_of(interpreter=interpreter, driver=Driver(driver)))
    settings = {"environment": setting} if setting is not None else {}
    host = known.pop("host", FakeHost())
    files = {"requirements.txt": b"", "requirements/train.txt": b""}
    site = {"survey": survey, "gpu": gpu, "settings": settings, "environment": {"PIP_INDEX_URL": "u"}, **known}
    return environment.plan(site_at(host, files, **site))
