"""The Python files that a command starts, also through shell scripts."""

import pytest

from fixers.setup.started_files import python_files_of
from tests.fixers.setup_rig import MemoryTree

PYTHON = ("train.py", "tools/prepare.py", "tools/train.py", "speech/__main__.py")


@pytest.mark.parametrize(
    ("shell", "started"),
    [
        ("python train.py", {"train.py", "tools/train.py"}),
        ("# python tools/prepare.py\npython ../train.py", {"train.py", "tools/train.py"}),
        ("echo 'python tools/prepare.py'\nexec python3 -m speech --fast", {"speech/__main__.py"}),
        ('CMD="python tools/prepare.py"\n$CMD', {"tools/prepare.py"}),
        ("bash tools/inner.sh", {"tools/prepare.py"}),
        ("exec ./tools/inner.sh && bash run.sh", {"tools/prepare.py"}),
        ("python -c 'import torch' $1; python tools/prepare.py", {"tools/prepare.py"}),
        ('SCRIPT=${1:-tools/prepare.py}\npython "$SCRIPT"', {"tools/prepare.py"}),
    ],
)
def test_the_python_files_of_a_shell_script_are_found(shell, started):
    files = {**dict.fromkeys(PYTHON, b""), "run.sh": shell.encode()}
    files |= {"tools/inner.sh": b"python prepare.py\n", "tools/run.sh": shell.encode()}
    assert python_files_of(MemoryTree(files), ["bash", "tools/run.sh"]) == started


@pytest.mark.parametrize(
    "shell",
    [
        'python "$@"',
        "python tools/prepare.py\npython -u $1",
        "torchrun --nproc_per_node 2 $2",
        "make train",
        "./other.sh",
    ],
)
def test_the_files_of_a_shell_script_are_unknown_if_an_argument_or_another_program_names_them(shell):
    files = {**dict.fromkeys(PYTHON, b""), "run.sh": shell.encode()}
    assert python_files_of(MemoryTree(files), ["bash", "run.sh"]) is None


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (["python", "./train.py", "--x"], {"train.py"}),
        (["python", "-m", "tools.prepare"], {"tools/prepare.py"}),
        (["./start"], {"train.py"}),
        (["bash", "-lc", "cd tools && python prepare.py"], {"tools/prepare.py"}),
        (["env", "A=1", "sh", "-c", "python tools/prepare.py"], {"tools/prepare.py"}),
        (["python", "-c", "python tools/prepare.py"], None),
        (["nothing"], None),
    ],
)
def test_the_python_files_of_a_command_are_found(command, started):
    files = {**dict.fromkeys(PYTHON, b""), "start": b"#!/usr/bin/env bash\npython ./train.py\n"}
    del files["tools/train.py"]
    assert python_files_of(MemoryTree(files), command) == started
