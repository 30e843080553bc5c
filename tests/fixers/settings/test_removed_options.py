"""Options that transformers removed are deleted from commands and files; a variable gets the value of logging_dir."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned
from tests.fixers.plans.project_plan import warned

PARSED = """from transformers import HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=model, args=args).train()
"""
V5 = {"requirements.txt": "transformers==5.15\n"}
SET = 'TENSORBOARD_LOGGING_DIR="${{TENSORBOARD_LOGGING_DIR:-{value}}}" '
LOGS = SET.format(value="logs")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("python t.py --logging_dir logs --seed 1\n", f"{LOGS}python t.py --seed 1\n"),
        ("torchrun t.py --logging-dir=logs\n", f"{LOGS}torchrun t.py\n"),
        ("X=1 python t.py \\\n    --logging_dir logs \\\n    --seed 1\n", f"X=1 {LOGS}python t.py \\\n    --seed 1\n"),
        ('python t.py --logging_dir "$OUT/logs"\n', SET.format(value="$OUT/logs") + "python t.py\n"),
        ("srun python t.py --logging_dir ${OUT}/logs\n", SET.format(value="${OUT}/logs") + "srun python t.py\n"),
        ("python t.py --logging_dir --seed 1\n", "python t.py --seed 1\n"),
        ("python t.py --logging_dir '$x'\n", "python t.py\n"),
        ("sudo python t.py --logging_dir logs\n", "sudo python t.py\n"),
        ("ARGS=(--logging_dir logs --seed 1)\n", "ARGS=(--seed 1)\n"),
        ('ARGS="--logging_dir logs --seed 1"\npython t.py $ARGS\n', 'ARGS="--seed 1"\npython t.py $ARGS\n'),
        (f"{LOGS}python t.py --logging_dir other\n", f"{LOGS}python t.py\n"),
    ],
)
def test_the_folder_of_tensorboard_moves_from_an_option_to_a_variable(tmp_path: Path, before: str, after: str) -> None:
    plan = planned(tmp_path, {"t.py": PARSED, "run.sh": before, **V5})
    assert changed(plan)["run.sh"] == after


def test_the_option_stays_where_the_project_declares_it(tmp_path: Path) -> None:
    own = 'import argparse\n\nparser = argparse.ArgumentParser()\nparser.add_argument("--logging_dir")\n'
    files = {"t.py": PARSED, "other.py": own, "run.sh": "python t.py --logging_dir logs\n", **V5}
    assert changed(planned(tmp_path, files)) == {}


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("args.yaml", "output_dir: out\nlogging_dir: logs  # events\nseed: 1\n", "output_dir: out\nseed: 1\n"),
        ("args.yaml", "output_dir: out\nlogging_dir: 'logs'", "output_dir: out\n"),
        ("args.yaml", "output_dir: out\r\nuse_mps_device: true\r\nseed: 1\r\n", "output_dir: out\r\nseed: 1\r\n"),
        ("args.yaml", "{output_dir: out, logging_dir: logs}\n", "{output_dir: out}\n"),
        ("args.json", '{"logging_dir": "logs", "output_dir": "out"}\n', '{"output_dir": "out"}\n'),
        (
            "args.json",
            '{\n  "output_dir": "out",\n  "overwrite_output_dir": true,\n  "seed": 1,\n  "logging_dir": "logs"\n}\n',
            '{\n  "output_dir": "out",\n  "seed": 1\n}\n',
        ),
    ],
)
def test_a_removed_key_is_deleted_from_a_file_of_arguments(tmp_path: Path, path: str, before: str, after: str) -> None:
    (tmp_path / path).write_bytes(before.encode())
    plan = planned(tmp_path, {"t.py": PARSED, **V5})
    assert {each.path: each.after for each in plan.changes}[path] == after.encode()


@pytest.mark.parametrize(
    "before",
    ["output_dir: out\n? logging_dir\n: logs\n", "output_dir: out\nlogging_dir:\n  logs\n"],
    ids=["an explicit key", "two lines"],
)
def test_a_removed_key_on_several_lines_is_reported(tmp_path: Path, before: str) -> None:
    plan = planned(tmp_path, {"t.py": PARSED, "args.yaml": before, **V5})
    assert changed(plan) == {}
    assert "transformers removed logging_dir" in warned(plan)


REAL = """import os
from transformers import TrainingArguments

args = TrainingArguments(output_dir="out", {option}, report_to="none", use_cpu=True)
print(os.environ.get("TENSORBOARD_LOGGING_DIR"))
"""


def test_the_installed_transformers_accepts_the_arguments_only_after_the_fix(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"t.py": REAL.format(option='logging_dir="logs"'), **V5})
    before, after = (_run(tmp_path, each) for each in ((tmp_path / "t.py").read_text(), changed(plan)["t.py"]))
    assert "unexpected keyword argument 'logging_dir'" in before.stderr
    assert after.stdout.splitlines()[-1:] == ["logs"], after.stderr


def _run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
