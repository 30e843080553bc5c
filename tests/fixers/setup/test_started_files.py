"""The Python files that a command starts, also through shell scripts."""

import time
from collections import Counter

import pytest

from fixers.setup import started_files
from fixers.setup.started_files import python_files_of, scripts_of_shell, shell_scripts_of
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


class CountingTree(MemoryTree):
    """Project files in memory, with the number of times that each of them was read."""

    def __init__(self, files):
        super().__init__(files)
        self.reads = Counter()

    def read(self, path):
        self.reads[path] += 1
        return super().read(path)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (b"bash tools/a.sh-old; . ./b.job\n", {"tools/a.sh", "b.job"}),
        (b"cp a.sh.bak x; $HERE/a.sh", {"tools/a.sh"}),
        (b"a.shell b.jobs .sh sh", set()),
        (b"#" * 70_000 + b"\nbash tools/a.sh\n", set()),
    ],
)
def test_the_shell_scripts_that_a_script_names_are_found(text, named):
    tree = CountingTree({"run.sh": text, "tools/a.sh": b"", "b.job": b"", "other.sh": b""})
    assert {path for path, _ in shell_scripts_of(tree, ["bash", "run.sh", "run.sh"])} == {"run.sh", *named}
    assert set(tree.reads.values()) == {1}


RECIPES = {"envs/gpu": b"export A=1\n", "train.recipe": b"python train.py\n", "train.py": b"", "b/run.job": b""}


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (("bash", "train.recipe", "envs/gpu"), {"train.recipe"}),
        (("bash", "-x", "-o", "pipefail", "./train.recipe"), {"train.recipe"}),
        (("sbatch", "-p", "gpu", "train.recipe"), {"train.recipe"}),
        (("bash", "-c", ". envs/gpu && python train.py"), {"", "envs/gpu"}),
        (("bash", "-c", 'source "envs/gpu"; /bin/bash -e train.recipe'), {"", "envs/gpu", "train.recipe"}),
        (("bash", "-c", "bash b/run.job train.recipe"), {"", "b/run.job"}),
        (("bash", "-c", "bash -c 'python train.recipe'; cp ./envs/gpu x; bash train.py"), {""}),
        (("python", "train.py", "train.recipe"), set()),
    ],
)
def test_what_a_shell_reads_is_a_script_whatever_its_name(command, read):
    assert {path for path, _ in shell_scripts_of(MemoryTree(RECIPES), command)} == read


@pytest.mark.parametrize("name", ["a.sh", "f1/a.sh", "x.s/y.s"])
def test_SE_a_shell_script_that_is_named_often_is_searched_and_read_once(name):
    names = [f"{'.' * (number % 9)}/{name} #{number}" for number in range(1000)]
    files = {f"f{number}/a.sh": "\n".join(names).encode() for number in range(200)}
    tree = CountingTree({"run.sh": "\n".join(names).encode(), **files})
    began = time.process_time()
    found = list(shell_scripts_of(tree, ["sh", "run.sh"]))
    assert time.process_time() - began < 5  # minutes if each name is compared with each path
    assert len(found) == {"a.sh": 201, "f1/a.sh": 2, "x.s/y.s": 1}[name]
    assert set(tree.reads.values()) == {1}


@pytest.mark.parametrize("word", [b".s.s", b"a.sh.", b"./", b"a.sh/ "])
def test_SE_long_words_of_a_shell_script_are_searched_in_linear_time(word):
    began = time.process_time()
    list(shell_scripts_of(MemoryTree({"run.sh": word * 1_000_000}), ["sh", "run.sh"]))
    assert time.process_time() - began < 2


def test_SE_the_files_of_too_many_bytes_of_shell_scripts_are_unknown(monkeypatch):
    files = {"train.py": b"", "run.sh": b"bash a.sh\npython train.py\n", "a.sh": b"#" * 40 + b"\n. b.sh\n", "b.sh": b""}
    assert python_files_of(MemoryTree(files), ["bash", "run.sh"]) == {"train.py"}
    monkeypatch.setattr(started_files, "MOST_BYTES", 60)
    assert [path for path, _ in shell_scripts_of(MemoryTree(files), ["bash", "run.sh"])] == ["run.sh", "a.sh"]
    assert python_files_of(MemoryTree(files), ["bash", "run.sh"]) is None


def test_SE_a_command_of_many_words_is_read_once():
    words = [each for number in range(20_000) for each in (f"w{number}", "-c")]
    began = time.process_time()
    assert python_files_of(MemoryTree({"train.py": b""}), ["bash", *words, "python train.py"]) == {"train.py"}
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("shell", "started"),
    [
        ("accelerate launch --num_processes 1 train.py --fast", ("train.py",)),
        ("cd tools && python prepare.py && cd ..\npython -m speech", ("tools/prepare.py", "speech/__main__.py")),
        ("cd tools; python train.py", ()),
        ("python prepare.py", ()),
        ("source venv/bin/activate\npython train.py", ()),
        ("conda run -n other python train.py", ()),
        ("/opt/other/bin/python train.py", ()),
        ("pip install -r requirements.txt && python train.py", ()),
        ("export PATH=/opt/other/bin:$PATH\npython train.py", ()),
        ("make train", ()),
    ],
)
def test_the_scripts_that_a_shell_script_starts_with_the_same_interpreter_are_found(shell, started):
    tree = MemoryTree({**dict.fromkeys(PYTHON, b""), "run.sh": shell.encode()})
    assert scripts_of_shell(tree, ["bash", "run.sh"]) == started
    assert scripts_of_shell(tree, ["bash", "-c", shell]) == started
