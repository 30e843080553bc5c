"""A config that a notebook writes, or with which it starts a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixers.plans.program_files import (
    ACCELERATE,
    PARSED,
    changed,
    planned,
)


def command_cell(command: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": [f"!{command}"]}], "nbformat": 4}, indent=1)


def test_a_config_belongs_to_the_script_that_a_notebook_starts_with_it(tmp_path: Path) -> None:
    loads = PARSED.replace("trainer = ", "model = Model.from_pretrained('a', torch_dtype=args.dtype)\ntrainer = ")
    config = "output_dir: out\nbf16: true\ntorch_dtype: bfloat16\n"
    files = {
        "training/run.ipynb": command_cell("accelerate launch scripts/sft.py --config recipes/full.yaml"),
        "training/recipes/full.yaml": config,
        "training/scripts/sft.py": loads,
        "training/other.py": PARSED,
    }
    after = changed(planned(tmp_path, files))
    assert after["training/recipes/full.yaml"] == config.replace("bf16", "fp16").replace("bfloat16", "float16")
    assert "parameter.data.float()" in after["training/scripts/sft.py"]


WRITES = "%%writefile train.yaml\noutput_dir: out\n{precision}\nlearning_rate: 1e-4\n"


@pytest.mark.parametrize(
    ("precision", "stays"),
    [("bf16: true", True), ("mixed_precision: bf16", True), ("bf16: false", False), ("fp16: true", False)],
)
def test_a_program_stays_if_a_notebook_writes_its_config_with_bfloat16(
    tmp_path: Path, precision: str, stays: bool
) -> None:
    cells = [
        {"cell_type": "code", "source": WRITES.format(precision=precision).splitlines(keepends=True)},
        {"cell_type": "code", "source": ["!python scripts/sft.py --config train.yaml"]},
    ]
    notebook = json.dumps({"cells": cells, "nbformat": 4}, indent=1)
    plan = planned(tmp_path, {"run.ipynb": notebook, "scripts/sft.py": ACCELERATE, "other.py": ACCELERATE})
    assert set(changed(plan)) == ({"other.py"} if stays else {"other.py", "scripts/sft.py"})
    assert not stays or "run.ipynb:" in "".join(f"{e.message}{e.where}" for e in plan.findings) + str(plan.skipped)
