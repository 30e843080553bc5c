"""Switches of the project that choose between bfloat16 and another dtype."""

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers
from tests.fixers.plans.program_files import planned as proved
from tests.fixers.plans.project_plan import changed, planned, warned

ENGINE = """import torch


def step(args, samples):
    if args.bf16:
        samples = samples.to(dtype=torch.bfloat16)
    else:
        samples = samples.half()
    return samples
"""
OPTION = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true")
"""
BLOCKS = """def config(args):
    return {
        "fp16": {"enabled": not args.bf16, "loss_scale": 0},
        "bf16": {"enabled": args.bf16},
    }
"""
CHOICE = "import torch\n\n\ndef dtype_of(args):\n    return torch.bfloat16 if args.bf16 else torch.float16\n"


@pytest.mark.parametrize("text", [ENGINE, BLOCKS, CHOICE])
def test_a_switch_that_selects_float16_when_it_is_off_is_unchanged_and_gets_no_second_name(tmp_path, text):
    files = {"engine.py": text, "main.py": OPTION, "run.sh": "python main.py --bf16\n"}
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    assert "run.sh:1 --bf16 is not replaced: engine.py:" in warned(plan)


@pytest.mark.parametrize(
    "reads",
    [
        "import transformers\n\n(args,) = transformers.HfArgumentParser(Arguments).parse_args_into_dataclasses()\n",
        "if args.fp16:\n    scaler = make_scaler()\n",
    ],
)
def test_a_switch_beside_an_fp16_switch_is_replaced(tmp_path, reads):
    files = {"engine.py": CHOICE + reads, "run.sh": "python main.py --bf16 True\n"}
    assert changed(planned(tmp_path, files)) == {"run.sh": "python main.py --fp16 True\n"}


OWN_ARGUMENTS = """import argparse
import torch
from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true", default=True, help="precision")
args = parser.parse_args()
model = Model.from_pretrained(name, torch_dtype=torch.bfloat16 if args.bf16 else torch.half)
Trainer(model=model, args=TrainingArguments(output_dir="o", bf16=args.bf16, fp16=not args.bf16)).train()
"""


@pytest.mark.parametrize("trainer", [True, False])
def test_a_switch_that_is_on_by_default_selects_float16_in_weights_and_trainer(tmp_path, trainer):
    text = OWN_ARGUMENTS if trainer else OWN_ARGUMENTS.rpartition("Trainer(model")[0].replace(", TrainingArguments", "")
    after = changed(planned(tmp_path, {"train.py": text}))["train.py"]
    assert "torch.float16 if args.bf16 else torch.half" in after
    assert trainer == ("bf16=False" in after)


DECLARED = {
    "argparse": 'import argparse\n\np = argparse.ArgumentParser()\np.add_argument("--bf16", type=bool, default=True)\n',
    "one argument per line": (
        "import argparse\n\np = argparse.ArgumentParser()\n"
        'p.add_argument(\n    "-b",\n    "--bf16",\n    default=True,\n)\n'
    ),
    "click": 'import click\n\n\n@click.option("--bf16", is_flag=True, default=True)\ndef main(bf16):\n    run(bf16)\n',
    "typer": 'import typer\n\n\ndef main(bf16: bool = typer.Option(True, "--bf16")):\n    run(bf16)\n',
}
PASSES = {
    "run.sh": "python main.py --bf16 True\n",
    "README.md": "Start `main.py` with --bf16.\n",
    "start.py": 'import subprocess\n\nsubprocess.run(["python", "main.py", "--bf16", "True"])\n',
}


@pytest.mark.parametrize("text", DECLARED.values(), ids=DECLARED)
def test_an_option_that_is_on_by_default_gets_a_second_name_only_if_a_command_may_pass_it(tmp_path, text):
    assert changed(planned(tmp_path / "alone", {"main.py": text, "run.sh": "python main.py --epochs 3\n"})) == {}
    for path, passing in PASSES.items():
        plan = planned(tmp_path / path, {"main.py": text, path: passing})
        assert '"--bf16", "--fp16"' in changed(plan)["main.py"].replace("\n    ", " ")
    off = text.replace("True", "False")
    assert "main.py" in changed(planned(tmp_path / "off", {"main.py": off}))


def test_an_option_that_is_on_by_default_gets_a_second_name_in_a_script_that_the_config_starts(tmp_path):
    (tmp_path / "main.py").write_text(DECLARED["argparse"])
    config = {"command": ["python", "main.py", "--bf16", "True"]}
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX, config=config))
    assert '"--bf16", "--fp16"' in changed(plan)["main.py"]


def test_a_config_key_that_selects_float16_when_it_is_off_is_turned_off(tmp_path):
    files = {"engine.py": CHOICE.replace("args.bf16", "cfg.bf16").replace("(args)", "(cfg)"), "a.yaml": "bf16: true\n"}
    assert changed(planned(tmp_path, files)) == {"a.yaml": "bf16: false\n"}


FORWARDED = """import torch
from transformers import HfArgumentParser, Trainer


def load(path, bf16=False, fp16=False):
    return Model.from_pretrained(path, torch_dtype=torch.float16 if fp16 else torch.float32)


(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
Trainer(model=load("m", {given}), args=args).train()
"""


@pytest.mark.parametrize(
    ("given", "stays"),
    [
        ("bf16=args.bf16, fp16=args.fp16", True),
        ("fp16=args.fp16, bf16=args.bf16", True),
        ("bf16=args.bf16, fp16=other.fp16", False),
        ("bf16=args.bf16, fp16=False", False),
    ],
)
def test_two_switches_that_a_call_passes_on_stay(tmp_path, given, stays):
    files = {"train.py": FORWARDED.format(given=given), "run.sh": "python train.py --bf16 True\n"}
    after = changed(planned(tmp_path, files))
    assert after["run.sh"] == "python train.py --fp16 True\n"
    assert (given in after.get("train.py", files["train.py"])) is stays


AMP = """import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="amp_bf16")
args = parser.parse_args()
dtype = torch.bfloat16 if "bf16" in args.precision else torch.float16
for batch in loader:
    with torch.autocast("cuda", dtype=dtype):
        loss = model(batch.to(torch.bfloat16)).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("word", ["amp_bf16", "amp_bfloat16"])
def test_a_program_with_a_word_of_amp_stays_because_its_spelling_differs_between_projects(tmp_path, word):
    plan = proved(tmp_path, {"train.py": AMP.replace("amp_bf16", word)})
    assert changed(plan) == {}
    assert f"{word} selects bfloat16, and its float16 spelling is unknown" in warned(plan)
    assert "spelling is unknown" not in warned(proved(tmp_path, {"train.py": AMP.replace("amp_bf16", "amp")}))


def test_a_switch_that_selects_float32_when_it_is_off_is_replaced(tmp_path):
    text = CHOICE.replace("float16\n", "float32\n")
    files = {"engine.py": text, "main.py": OPTION, "run.sh": "python main.py --bf16\n"}
    assert set(changed(planned(tmp_path, files))) == {"engine.py", "main.py", "run.sh"}


def test_code_that_follows_a_switch_for_bfloat16_stays(tmp_path):
    follows = (
        "def convert(args):\n    args.fp16 = False\n    if args.memory_efficient_bf16:\n        args.bf16 = True\n"
    )
    applies = """import torch


def apply_half(t):
    return t.to(dtype=torch.half)


def apply_bfloat16(t):
    return t.to(dtype=torch.bfloat16)
"""
    assert changed(planned(tmp_path / "a", {"options.py": follows, "trainer.py": applies})) == {}
    alone = {
        "options.py": follows.replace("if args.memory_efficient_bf16", "if args.fast"),
        "trainer.py": applies.replace("apply_half", "apply"),
    }
    assert set(changed(planned(tmp_path / "b", alone))) == {"options.py", "trainer.py"}


AUTOCAST = """import torch
from torch.amp import GradScaler, autocast

scaler = GradScaler(enabled=hps.train.bf16_run)
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with autocast("cuda", enabled=hps.train.bf16_run, dtype=torch.bfloat16):
        loss = model(batch).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
SWITCHED_OFF = {
    "a JSON config": {"conf/base.json": '{"train": {"bf16_run": false}}\n'},
    "a YAML config": {"conf/base.yaml": "train:\n  bf16_run: no\n"},
    "a field": {"conf.py": "class Train:\n    bf16_run: bool = False\n"},
    "a flag": {"conf.py": 'parser.add_argument("--bf16_run", action="store_true")\n'},
    "a command": {"run.sh": "python train.py --bf16-run=false\n"},
}
SWITCHED_ON = {
    "another config": {"conf/large.json": '{"train": {"bf16_run": true}}\n'},
    "a command": {"run.sh": "python train.py --bf16-run\n"},
    "a document": {"README.md": "Set `bf16_run: true` on new cards.\n"},
    "a keyword": {"launch.py": "main(bf16_run=True)\n"},
    "a default": {"conf.py": 'parser.add_argument("--bf16-run", default=True)\n'},
}


@pytest.mark.parametrize("files", SWITCHED_OFF.values(), ids=SWITCHED_OFF)
def test_an_autocast_that_all_settings_turn_off_is_unchanged(tmp_path, files):
    plan = planned(tmp_path, {"train.py": AUTOCAST, **files})
    assert "train.py" not in changed(plan)
    assert [each.where for each in plan.skipped if "turn off" in each.reason] == ["train.py:8"]


@pytest.mark.parametrize("files", SWITCHED_ON.values(), ids=SWITCHED_ON)
def test_an_autocast_that_one_setting_turns_on_is_changed(tmp_path, files):
    plan = planned(tmp_path, {"train.py": AUTOCAST, "conf/base.json": '{"train": {"bf16_run": false}}\n', **files})
    assert "dtype=torch.float16" in changed(plan)["train.py"]


@pytest.mark.parametrize("enabled", ["use_amp", "True", "hps.train.bf16_run or True"])
def test_an_autocast_with_another_switch_is_changed(tmp_path, enabled):
    text = AUTOCAST.replace("enabled=hps.train.bf16_run, dtype", f"enabled={enabled}, dtype")
    plan = planned(tmp_path, {"train.py": text, "conf/base.yaml": "bf16_run: false\nuse_amp: false\n"})
    assert "dtype=torch.float16" in changed(plan)["train.py"]
