"""Float16 weights without mixed precision are found across files and dicts; similar code is accepted."""

import subprocess
import sys
from pathlib import Path

import pytest

from fixers.frame.change import Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from pipeline.judgements.half_weights import judge_after_fixes, judge_half_weights
from tests.fixers.casebook import AMPERE, TITAN_RTX

LOAD = """\
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM


def load(name):
    options = {"torch_dtype": torch.float16, "device_map": "cuda"}
    model = AutoModelForCausalLM.from_pretrained(name, **options)
    model = get_peft_model(model, None)
    return model, None
"""
SETTINGS = """\
CONFIG = {
    "model": "base",
    "training": {
        "output_dir": "out",
        "fp16": False,  # Disabled AMP
    },
}
"""
TRAINER = """\
from transformers import Trainer, TrainingArguments

from models.load import load
from settings import CONFIG

model, tokenizer = load(CONFIG["model"])
arguments = TrainingArguments(**CONFIG["training"], bf16=False)
Trainer(model=model, args=arguments).train()
"""
ONE_FILE = """\
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def options():
    return dict(output_dir="out", fp16=False)

model = AutoModelForCausalLM.from_pretrained("base", torch_dtype="float16")
model.train()
Trainer(model, TrainingArguments(**options())).train()
"""
LOOP = """\
import torch
from net import Net

model = Net().to("cuda").half()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for batch in batches:
    model(batch).backward()
    optimizer.step()
"""
NET = """\
import torch


def build(device=None):
    net = torch.nn.Linear(1, 1)
    net.half()
    return net
"""
CALLS = LOOP.replace('Net().to("cuda").half()', "build()").replace("net import Net", "net import build")
CASTS = "for p in model.parameters():\n    if p.requires_grad:\n        p.data = p.data.float()\n"
PROJECT = {"models/load.py": LOAD, "settings.py": SETTINGS, "train.py": TRAINER}


def _folder(root: Path, files: dict[str, str]) -> DiskTree:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return DiskTree(root)


def _findings(root: Path, files: dict[str, str]) -> list[tuple[str, str, str]]:
    findings = judge_half_weights(_folder(root, files))
    return [(each.severity.value, each.where, each.message.partition("(")[2].partition(")")[0]) for each in findings]


@pytest.mark.parametrize(
    ("files", "findings"),
    [
        (PROJECT, [("error", "settings.py:5", "models/load.py:8")]),
        ({"train.py": ONE_FILE}, [("error", "train.py:5", "train.py:7")]),
        (
            {
                "train.py": "from own.options import options\n" + ONE_FILE.replace("def options", "def others"),
                "own/options.py": "def options():\n    return {'fp16': False}\n",
            },
            [("error", "own/options.py:2", "train.py:8")],
        ),
        ({"train.py": ONE_FILE.replace(", fp16=False", "")}, [("warning", "train.py:9", "train.py:7")]),
        ({"train.py": LOOP, "net.py": "class Net: pass\n"}, [("warning", "train.py:5", "train.py:4")]),
        ({"train.py": CALLS, "net.py": NET}, [("warning", "train.py:5", "net.py:6")]),
    ],
)
def test_half_weights_without_autocast_or_scaler_are_found_with_their_line(tmp_path, files, findings) -> None:
    assert _findings(tmp_path, files) == findings


@pytest.mark.parametrize(
    "files",
    [
        {**PROJECT, "settings.py": SETTINGS.replace("False", "True")},
        {**PROJECT, "models/load.py": LOAD.replace("torch.float16", "torch.float32")},
        {**PROJECT, "train.py": TRAINER.replace("model=model", "model=other")},
        {**PROJECT, "run.sh": "accelerate launch --mixed_precision fp16 train.py\n"},
        {"train.py": ONE_FILE.replace("fp16=False", "fp16=cfg.fp16")},
        {"train.py": ONE_FILE.replace("**options()", "**read_options()")},
        {"train.py": ONE_FILE.replace("model.train()", "model.float()")},
        {"train.py": ONE_FILE.replace("fp16=False", 'deepspeed="ds.json"')},
        {"train.py": LOOP.replace(".half()", "")},
        {"train.py": LOOP + "    with torch.autocast('cuda'):\n        pass\n"},
        {
            "train.py": LOOP.replace("net import Net", "scaled import *"),
            "scaled.py": "from torch.amp import GradScaler\n",
        },
        {"train.py": LOOP.replace("model = ", "teacher = ") + "model = Net()\n"},
        {"train.py": LOOP.replace("for batch", CASTS + "for batch")},
        {"eval.py": "import torch\nmodel = Net().half()\nmodel(1)\n", "train.py": LOOP.replace(".half()", "")},
        {"train.py": "# model.half()\n" + LOOP.replace(".half()", "")},
    ],
)
def test_mixed_precision_and_models_that_are_not_trained_in_half_are_left_alone(tmp_path, files) -> None:
    assert _findings(tmp_path, files) == []


def test_only_a_card_without_bfloat16_and_a_mixed_plan_are_judged(tmp_path) -> None:
    tree = _folder(tmp_path, PROJECT)
    assert judge_after_fixes(Site(tree, gpu=TITAN_RTX), Plan())
    assert not judge_after_fixes(Site(tree, gpu=AMPERE), Plan())
    assert not judge_after_fixes(Site(tree), Plan())
    assert not judge_after_fixes(Site(tree, gpu=TITAN_RTX, config={"precision": "fp16-pure"}), Plan())


@pytest.mark.parametrize("verb", [["fix", "--diff", "."], ["plan"]])
def test_fix_and_plan_report_it(tmp_path, verb) -> None:
    _folder(tmp_path, PROJECT)
    argv = [sys.executable, "-m", "pipeline", *verb, "--card", "titan-rtx"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert verb == ["plan"] or done.returncode == 23, done.stdout + done.stderr
    assert "half-without-scaler" in done.stdout + done.stderr
    assert "settings.py:5" in done.stdout + done.stderr
