"""Precision settings in a command and its environment are adapted to the card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.config.load import load_config
from pipeline.diagnosis.cures import Cure
from pipeline.runs.command import Place, command_of, environment_of
from pipeline.runs.launch import describe_launch_changes
from pipeline.runs.view import View
from remote.project.scan import scan_project
from remote.protocol.machine import Gpu
from tests.pipeline.views import view_of

PLACE = Place("", "")
FLASH = ("--attn_implementation", "flash_attention_2")


def view_on(root: Path, capability: tuple[int, int], *overrides: str, fixers: str = "{}", **config: Any) -> View:
    """Return the project with such a config, on a card of that capability."""
    view = view_of(root, state=None)
    written = "".join(f"{key}: {value}\n" for key, value in config.items())
    (root / "configs" / "plain.yaml").write_text(f"fixers: {fixers}\n{written}")
    card = Gpu(0, "", "a card", capability, 24 << 30)
    view = view.with_survey(replace(view.survey, gpus=(card,)))
    return replace(view, loaded=load_config("plain", root, overrides), scan=scan_project(root))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ('[python, train.py, --bf16, "True"]', ("train.py", "--fp16", "True")),
        (
            "[python, train.py, --bf16, --attn_implementation, flash_attention_2]",
            ("train.py", "--fp16", *FLASH[:1], "sdpa"),
        ),
        (
            "[bash, -c, 'export MODE=\"x\"; accelerate launch --mixed_precision bf16 train.py']",
            ("-c", 'export MODE="x"; accelerate launch --mixed_precision fp16 train.py'),
        ),
        ('[bash, -c, "cd x\\npython train.py --bf16 True\\n"]', ("-c", "cd x\npython train.py --fp16 True\n")),
        ("[python, train.py, --name, bf16]", ("train.py", "--name", "bf16")),
    ],
)
def test_a_command_trains_in_a_precision_that_the_card_supports(tmp_path, command, expected):
    assert command_of(view_on(tmp_path, (7, 5), command=command), PLACE)[1:] == expected


@pytest.mark.parametrize(("capability", "fixers"), [((8, 0), "{}"), ((7, 5), "{launch-flags: off}")])
def test_a_command_that_no_enabled_fixer_covers_is_unchanged(tmp_path, capability, fixers):
    view = view_on(tmp_path, capability, command="[python, train.py, --bf16]", fixers=fixers)
    assert command_of(view, PLACE)[1:] == ("train.py", "--bf16")


def test_commands_from_set_options_and_cures_are_adapted_too(tmp_path):
    view = view_on(tmp_path, (7, 5), "command=[python, train.py, --bf16]", command="[python, train.py]")
    assert command_of(view, PLACE)[1:] == ("train.py", "--fp16")
    cure = Cure("x", "x", overrides={"command": ["python", "train.py", "--tf32", "True"]})
    assert command_of(replace(view, cures=(cure,)), PLACE)[1:] == ("train.py", "--tf32", "False")


def test_differences_from_the_given_command_are_reported(tmp_path):
    view = view_on(tmp_path, (7, 5), "command=[python, train.py, --bf16]", env="{ACCELERATE_MIXED_PRECISION: bf16}")
    description = "started with --fp16 instead of --bf16, with ACCELERATE_MIXED_PRECISION=fp16 instead of"
    assert describe_launch_changes(view).startswith(description)
    assert describe_launch_changes(view_on(tmp_path, (8, 0), command="[python, train.py, --bf16]")) == ""


def test_the_environment_is_adapted_to_the_card_too(tmp_path):
    view = view_on(tmp_path, (7, 5), command="[python, train.py]", env="{ACCELERATE_MIXED_PRECISION: bf16, A: 'b: c'}")
    environment = environment_of(view)
    assert (environment["ACCELERATE_MIXED_PRECISION"], environment["A"]) == ("fp16", "b: c")


def test_inserted_words_are_named_without_the_words_that_follow_them(tmp_path):
    view = view_on(tmp_path, (8, 0), command="[accelerate, launch, --multi_gpu, train.py]")
    assert command_of(view, PLACE)[2:] == ("--main_process_port", "0", "--multi_gpu", "train.py")
    assert describe_launch_changes(view) == "started with --main_process_port 0"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("HfArgumentParser(TrainingArguments)\n", ("--eval_strategy", "no")),
        ("parser.add_argument('--evaluation_strategy')\n", ("--evaluation_strategy", "no")),
    ],
)
def test_options_get_the_names_of_the_pinned_trainer_if_the_project_parses_them_into_it(tmp_path, code, words):
    view = view_on(tmp_path, (8, 0), command='[python, train.py, --evaluation_strategy, "no"]')
    assert command_of(with_code(view, code), PLACE)[2:] == words


@pytest.mark.parametrize(("code", "word"), [("cfg['bf16']\n", "bf16=true"), ("cfg['other']\n", "fp16=true")])
def test_an_override_that_the_project_s_code_reads_keeps_its_name(tmp_path, code, word):
    view = view_on(tmp_path, (7, 5), command="[python, train.py, bf16=true]")
    assert command_of(with_code(view, code), PLACE)[2:] == (word,)


def with_code(view: View, code: str) -> View:
    """Return the view of the project with this code in its training script, and transformers 5 in its requirements."""
    (view.scan.root / "train.py").write_text(code)
    (view.scan.root / "requirements.txt").write_text("transformers==5.1.0\n")
    return replace(view, scan=scan_project(view.scan.root))
