"""Fixes of a job's command and environment."""

import pytest

from fixers.frame.site import Site
from fixers.plans.launch_plan import FIXERS, plan_launch
from fixers.registry import SOURCE_NAMES
from fixers.settings.launch_text import Launch
from tests.fixers.casebook import AMPERE, TITAN_RTX
from tests.fixers.setup_rig import MemoryTree


def planned(command=None, gpu=TITAN_RTX, **env):
    launch = plan_launch(Launch(command, env), Site(MemoryTree({}), gpu, config={"precision": "auto"}))
    return launch.env if command is None else launch.command


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("t", "--bf16", "--out", "a b"), ("t", "--fp16", "--out", "a b")),
        (("t", "--mixed_precision", "bf16", "é --bf16"), ("t", "--mixed_precision", "fp16", "é --fp16")),
        (("t", "--name", "bf16", "bf16"),) * 2,
        (("t", "", "--dtype=bf16", ""), ("t", "", "--dtype=fp16", "")),
        (("echo", "--bf16"),) * 2,
        (("bash", "-c", "cat > a.yaml <<E\nbf16: true\nE\n"), ("bash", "-c", "cat > a.yaml <<E\nfp16: true\nE\n")),
        (("bash", "-c", "t --bf16 'open"),) * 2,
        (("torchrun", "--rdzv-endpoint=localhost:29500", "t"), ("torchrun", "--rdzv-endpoint=localhost:0", "t")),
        (
            ("accelerate", "launch", "--num_processes", "2", "t"),
            ("accelerate", "launch", "--main_process_port", "0", "--num_processes", "2", "t"),
        ),
        (
            ("bash", "-c", "accelerate launch --multi_gpu t"),
            ("bash", "-c", "accelerate launch --main_process_port 0 --multi_gpu t"),
        ),
    ],
)
def test_the_command_of_a_job_follows_the_rules_for_scripts(before, after):
    assert planned(before) == after
    assert planned(after) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"ACCELERATE_MIXED_PRECISION": "bf16", "A": 'b: "c\\'},
            {"ACCELERATE_MIXED_PRECISION": "fp16", "A": 'b: "c\\'},
        ),
        ({"TORCH_DTYPE": "bfloat16", "NAME": "bf16"}, {"TORCH_DTYPE": "float16", "NAME": "bf16"}),
        ({"ARGS": "x --bf16"}, {"ARGS": "x --fp16"}),
        ({"EXTRA": "--bf16 True"}, {"EXTRA": "--fp16 True"}),
        ({"EXTRA": "use --bf16"},) * 2,
    ],
)
def test_the_environment_of_a_job_follows_the_rules_for_settings(before, after):
    assert planned(**before) == after
    assert planned(**after) == after


def test_a_variable_of_the_environment_is_edited_if_the_command_uses_it_as_a_precision():
    command = ("bash", "-c", "t --mixed_precision $MODE")
    launch = plan_launch(Launch(command, {"MODE": "bf16"}), Site(MemoryTree({}), TITAN_RTX))
    assert launch == Launch(command, {"MODE": "fp16"})


def test_a_card_with_bfloat16_keeps_the_command():
    assert planned(("t", "--bf16"), AMPERE) == ("t", "--bf16")


def test_the_fixers_of_launches_run_in_the_order_of_all_fixers():
    names = [fixer.name for fixer in FIXERS]
    assert names == [name for name in SOURCE_NAMES if name in names]
