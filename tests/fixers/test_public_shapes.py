"""Whole small projects in the shapes of public repositories: all fixers together adapt them to an older card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from remote.protocol.findings import Severity
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

LIGHTNING = """import lightning as L
from torch import nn


class Lit(L.LightningModule):
    def training_step(self, batch, at):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


L.Trainer(max_epochs=3, precision="bf16-mixed").fit(Lit(), loader)
"""
LOOP = """import torch
import yaml

cfg = yaml.safe_load(open("conf/train.yaml"))
dtype = torch.bfloat16 if {read} else (torch.float16 if cfg.get("fp16") else None)
"""
DICT_LOOP = LOOP.format(read='cfg["trainer"]["bf16"]')
ATTRIBUTE_LOOP = LOOP.format(read="self.cfg.trainer.bf16")
ARGUMENTS = """from transformers import HfArgumentParser, TrainingArguments, Trainer

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
dtype = "half" if args.bf16 else "full"
Trainer(model=model, args=args).train(resume_from_checkpoint=True)
"""
OWN_OPTION = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--warmup_ratio", type=float)
parser.add_argument("--overwrite_output_dir", action="store_true")
"""
SHELL = """python train.py \\
    --overwrite_output_dir \\
    --evaluation_strategy steps \\
    --warmup_ratio 0.03 \\
    --output_dir out
"""
TODAYS_SHELL = """python train.py \\
    --eval_strategy steps \\
    --warmup_steps 0.03 \\
    --output_dir out
"""
REFUSES = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision")
args = parser.parse_args()
assert args.mixed_precision == "bf16"
"""
CONF = "trainer:\n  bf16: true\n"
RECIPE = "learning_rate: 1.0e-5\nbf16: true\nevaluation_strategy: steps\nwarmup_ratio: 0.1   # of all\n"
TODAYS_RECIPE = "learning_rate: 1.0e-5\nfp16: true\neval_strategy: steps\nwarmup_steps: 0.1   # of all\n"
V5 = {"requirements.txt": "transformers==5.15\n"}
V4 = {"requirements.txt": "transformers==4.40\n"}


def fixed(folder: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files after one pass of all fixers.

    Check that the pass reports no error, and that a second pass changes nothing.
    """
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    site = Site(DiskTree(folder), gpu=replace(TITAN_RTX))
    plan = plan_offers(site)
    assert [finding for finding in plan.findings if finding.severity is Severity.ERROR] == []
    for change in plan.changes:
        assert isinstance(change, FileChange)
        (folder / change.path).write_bytes(change.after)
    assert plan_offers(Site(DiskTree(folder), gpu=replace(TITAN_RTX))).changes == ()
    return {path: (folder / path).read_text() for path in files}


def test_a_lightning_module_in_bf16_mixed_is_fixed_in_one_pass(tmp_path: Path) -> None:
    text = fixed(tmp_path, {"train.py": LIGHTNING})["train.py"]
    assert 'precision="16-mixed"' in text and "cross_entropy(self.net(x), y)" in text


@pytest.mark.parametrize(
    ("script", "command", "conf", "wanted"),
    [
        (DICT_LOOP, "", CONF, CONF),
        (ATTRIBUTE_LOOP, "", CONF, CONF),
        (LOOP.format(read='getattr(trainer, "bf16")'), "python train.py bf16=true\n", CONF, CONF),
        (LOOP.format(read="precise"), "python train.py bf16=true\n", CONF, CONF.replace("bf16", "fp16")),
        (ARGUMENTS, "", CONF, CONF.replace("bf16", "fp16")),
    ],
)
def test_a_key_that_the_projects_own_code_reads_keeps_its_name(
    tmp_path: Path, script: str, command: str, conf: str, wanted: str
) -> None:
    after = fixed(tmp_path, {"train.py": script, "run.sh": command, "conf/train.yaml": conf})
    assert after["conf/train.yaml"] == wanted
    assert after["run.sh"] == (command if wanted == conf else command.replace("bf16", "fp16"))
    assert "bfloat16" not in after["train.py"]


@pytest.mark.parametrize(
    ("files", "shell"),
    [
        ({"train.py": ARGUMENTS, **V5}, TODAYS_SHELL),
        ({"train.py": ARGUMENTS}, SHELL),
        ({"train.py": ARGUMENTS, **V4}, SHELL),
        ({"train.py": OWN_OPTION, **V5}, SHELL),
        ({"train.py": ARGUMENTS, "other.py": OWN_OPTION, **V5}, SHELL.replace("evaluation_strategy", "eval_strategy")),
        ({"train.py": "import mine\n", **V5}, SHELL),
    ],
)
def test_options_of_a_launch_script_follow_the_trainer_that_parses_them(
    tmp_path: Path, files: dict[str, str], shell: str
) -> None:
    assert fixed(tmp_path, {**files, "train.sh": SHELL})["train.sh"] == shell


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python t.py --output_dir o --overwrite_output_dir\n", "python t.py --output_dir o\n"),
        ("python t.py --overwrite_output_dir True --seed 1\n", "python t.py --seed 1\n"),
        ("torchrun t.py --warmup-ratio=0.1\n", "torchrun t.py --warmup-steps=0.1\n"),
        ('ARGS="--warmup_ratio 0.1"\npython t.py $ARGS\n', 'ARGS="--warmup_steps 0.1"\npython t.py $ARGS\n'),
        ("ARGS=(--warmup_ratio 0.1)\n", "ARGS=(--warmup_steps 0.1)\n"),
        ('ARGS="--save_safetensors"\n', 'ARGS=""\n'),
        ("python t.py --warmup_steps 5 --warmup_ratio 0\n", "python t.py --warmup_steps 5 --warmup_ratio 0\n"),
    ],
)
def test_an_option_is_renamed_or_removed_in_all_its_spellings(tmp_path: Path, before: str, after: str) -> None:
    assert fixed(tmp_path, {"t.py": ARGUMENTS, "go.sh": before, **V5})["go.sh"] == after


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("acc.yaml", "compute_environment: LOCAL\nmixed_precision: bf16\n", "fp16"),
        ("run.sh", "accelerate launch --mixed_precision bf16 train.py\n", "fp16"),
        ("run.sh", "accelerate launch train.py --mixed_precision bf16\n", "bf16"),
        ("conf.yaml", "mixed_precision: bf16\n", "bf16"),
    ],
)
def test_settings_of_accelerate_are_read_by_no_code_of_the_project(
    tmp_path: Path, path: str, before: str, after: str
) -> None:
    text = fixed(tmp_path, {"train.py": REFUSES, path: before})[path]
    assert text == before.replace("bf16", after)


def test_a_recipe_of_trainer_arguments_gets_the_current_names(tmp_path: Path) -> None:
    files = {"train.py": ARGUMENTS.replace("HfArgumentParser", "TrlParser"), "recipes/dpo.yaml": RECIPE, **V5}
    assert fixed(tmp_path, files)["recipes/dpo.yaml"] == TODAYS_RECIPE
