"""Whether an interpreter suits a card, tested with tables."""

import pytest

from fixers.setup.environment import judge_interpreter, venv_of
from remote.protocol.machine import Driver, Interpreter, Torch
from tests.fixers.setup.planned_environment import ASSUMED, CPU, PASCAL, PYTHON, TURING, built_for, error
from tests.fixers.setup_rig import card

NO_CODE = "torch 2.11.0+cu128 contains no code for {}: {}"


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
