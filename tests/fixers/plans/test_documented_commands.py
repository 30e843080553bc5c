"""Commands of documents that train in bfloat16 are reported once, unless a file of commands starts the program too."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.documented_commands import MESSAGE
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import LOOP

FLOAT16 = """from argparse import ArgumentParser

parser = ArgumentParser()
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()
""" + LOOP.replace("torch.bfloat16", "getattr(torch, args.dtype)").replace(
    "    loss.backward()", "    scaler.scale(loss).backward()"
).replace("optimizer.step()", "scaler.step(optimizer)\n    scaler.update()").replace(
    "for batch", "scaler = torch.amp.GradScaler()\nfor batch"
)
TEXT = "# Speech\n\nTrain a model:\n\n```\n{command}\n```\n"
REPORTED = {
    "an option with a value": ('python train.py --dtype "bfloat16" --lr 3', 6),
    "a continued command": ("torchrun --nproc-per-node 2 train.py \\\n  --lr 3 \\\n  --dtype=bfloat16 \\\n  --x", 8),
    "a switch": ("python train.py --bf16", 6),
    "a setting of Hydra": ("python train.py model.dtype=bf16", 6),
    "a launcher": ("accelerate launch --mixed_precision=bf16 train.py", 6),
}
SILENT = {
    "float16": "python train.py --dtype float16",
    "off": "python train.py --bf16 False --lr 3",
    "another script": "python generate.py --dtype bfloat16",
    "prose": "The weights of train.py are stored in bfloat16.",
}


def reported(root: Path, files: dict[str, str], **config: object) -> list[str]:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    plan = plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX, config=config))
    return [each.where for each in plan.findings if each.message == MESSAGE]


@pytest.mark.parametrize(("command", "line"), REPORTED.values(), ids=REPORTED)
def test_a_command_of_a_document_is_reported_with_its_line(tmp_path: Path, command: str, line: int) -> None:
    files = {"train.py": FLOAT16, "docs/use.md": TEXT.format(command=command)}
    assert reported(tmp_path, files) == [f"docs/use.md:{line}"]


@pytest.mark.parametrize("command", SILENT.values(), ids=SILENT)
def test_other_texts_are_not_reported(tmp_path: Path, command: str) -> None:
    assert reported(tmp_path, {"train.py": FLOAT16, "README.md": TEXT.format(command=command)}) == []


def test_a_program_that_a_file_of_commands_starts_is_not_reported(tmp_path: Path) -> None:
    command = "python train.py --dtype bfloat16"
    files = {"train.py": FLOAT16, "README.md": TEXT.format(command=command), "run.sh": f"{command}\n"}
    assert reported(tmp_path, files) == []


def test_a_program_that_stays_in_bfloat16_is_not_reported(tmp_path: Path) -> None:
    text = "from transformers import T5ForConditionalGeneration\n" + LOOP.replace(
        "torch.nn.Linear(2, 2)", 'T5ForConditionalGeneration.from_pretrained("t5-base")'
    )
    command = "python train.py --dtype bfloat16"
    assert reported(tmp_path, {"train.py": text, "README.md": TEXT.format(command=command)}) == []


def test_documents_are_not_reported_for_a_run_of_a_config(tmp_path: Path) -> None:
    files = {"train.py": FLOAT16, "README.md": TEXT.format(command="python train.py --bf16")}
    assert reported(tmp_path, files, command=["python", "train.py"]) == []
