"""A program that a notebook or a script starts with a dict of arguments keeps bfloat16 if the dict selects it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixers.plans.program_files import ACCELERATE, TRAINER, changed, planned

ESTIMATOR = """options = {{
    "epochs": 3,
    {entry}
}}
job = Estimator(entry_point="sft.py", source_dir="../code/one", hyperparameters=options)
job.fit(data)
"""
RUNNER = """import subprocess
import sys

options = {{"epochs": 3, {entry}}}
subprocess.run([sys.executable, "code/one/sft.py", *(f"--{{key}}={{value}}" for key, value in options.items())])
"""
ADDED = """import os

options = {{}}
options[{entry}
os.system("python code/one/sft.py " + " ".join(f"--{{key}} {{value}}" for key, value in options.items()))
"""
SELECTING = {
    "an estimator": ("jobs/run.ipynb", ESTIMATOR.format(entry="'bf16': True,")),
    "an estimator, in double quotes": ("jobs/run.ipynb", ESTIMATOR.format(entry='"use_bf16": "True",')),
    "an estimator in a script": ("jobs/run.py", ESTIMATOR.format(entry='"mixed_precision": "bf16",')),
    "a list of arguments": ("run.py", RUNNER.format(entry='"torch_dtype": "bfloat16"')),
    "an entry that is added": ("run.py", ADDED.format(entry='"bf16"] = True')),
}
OTHERS = {
    "bfloat16 that is off": ("run.py", RUNNER.format(entry='"bf16": False')),
    "float16": ("jobs/run.ipynb", ESTIMATOR.format(entry='"fp16": True,')),
    "a comment": ("jobs/run.ipynb", ESTIMATOR.format(entry='# "bf16": True,')),
    "another script": ("run.py", RUNNER.format(entry='"bf16": True').replace("one/sft.py", "one/serve.py")),
    "a script that only a comment names": (
        "run.py",
        RUNNER.format(entry='"bf16": True').replace('"code/one/sft.py"', "tool  # not code/one/sft.py\n    "),
    ),
    "a dict in a file that starts nothing": ("run.py", 'print({"bf16": True}, "code/one/sft.py")\n'),
}


def files(path: str, code: str) -> dict[str, str]:
    cells = [
        {"cell_type": "markdown", "source": ["Compare with code/two/sft.py."]},
        {"cell_type": "code", "source": code.splitlines(keepends=True)},
    ]
    text = json.dumps({"cells": cells, "nbformat": 4}, indent=1) if path.endswith(".ipynb") else code
    return {path: text, "code/one/sft.py": TRAINER, "code/two/sft.py": ACCELERATE}


@pytest.mark.parametrize(("path", "code"), SELECTING.values(), ids=SELECTING)
def test_a_program_stays_if_a_dict_of_arguments_selects_bfloat16(tmp_path: Path, path: str, code: str) -> None:
    plan = planned(tmp_path, files(path, code))
    assert set(changed(plan)) == {"code/two/sft.py"}
    messages = [each.message for each in plan.findings if "stays in bfloat16" in each.message]
    assert any(f"{path}:" in each and "starts code/one/sft.py with bfloat16" in each for each in messages)


@pytest.mark.parametrize(("path", "code"), OTHERS.values(), ids=OTHERS)
def test_other_dicts_do_not_stop_the_conversion(tmp_path: Path, path: str, code: str) -> None:
    assert set(changed(planned(tmp_path, files(path, code)))) - {path} == {"code/one/sft.py", "code/two/sft.py"}
