"""Code of a notebook in a script is found before the script runs."""

from __future__ import annotations

import pytest

from fixers.sources.syntax import LARGEST_BYTES
from pipeline.judgements.notebook_code import MOST_LINES, judge_notebook_code
from pipeline.judgements.started import files_reached
from remote.protocol.findings import Finding

COMMAND = ("python", "train.py")
SYSTEM = "get_ipython().system('pip install -q peft')\n"


class Files:
    def __init__(self, code: str) -> None:
        self._code = code.encode()

    def paths(self):
        return {"train.py": self._code, "lab.ipynb": b"{}", "unused.py": SYSTEM.encode()}

    def read(self, path):
        return self.paths()[path]


def judged(code: str, command: tuple[str, ...] = COMMAND) -> list[Finding]:
    files = Files(code)
    return list(judge_notebook_code(files, command, files_reached(files, command)).findings)


def test_the_lines_that_need_ipython_are_named() -> None:
    [finding] = judged(f"# In[1]:\n{SYSTEM}x = 1\nget_ipython().run_line_magic('matplotlib', 'inline')\n")
    assert (finding.check, finding.where) == ("notebook-code", "train.py:2")
    assert finding.message == "plain python does not define get_ipython(), which a notebook has: lines 2, 4"
    assert "requirements.txt" in finding.hint


def test_a_displayed_value_needs_ipython_too() -> None:
    [finding] = judged("import pandas\nfor _ in range(2):\n    display(pandas)\n")
    assert (finding.where, "display(): line 3" in finding.message.replace(", which a notebook has", "")) == (
        "train.py:3",
        True,
    )
    assert "requirements.txt" not in finding.hint


@pytest.mark.parametrize(
    ("commands", "lines"),
    [
        ("%matplotlib inline\nx = 1\n", "line 2"),
        ("!pip install -q peft\n  ! ls\n", "lines 2, 3"),
        ("%%time\nx = 1\n", "line 2"),
    ],
)
def test_commands_of_a_notebook_in_a_file_that_does_not_parse_are_named(commands: str, lines: str) -> None:
    [finding] = judged(f"import torch\n{commands}")
    assert (finding.check, finding.where) == ("notebook-code", "train.py:2")
    assert finding.message.startswith(
        f"not Python, but commands of a notebook, as in `{commands.partition(chr(10))[0]}`"
    )
    assert finding.message.endswith(f": {lines}")


class Lines(bytes):
    """A file that must not be divided into lines."""

    def split(self, *_):
        raise AssertionError("all lines are in memory at the same time")


def test_only_the_lines_that_the_message_needs_are_kept() -> None:
    tree = Files("!a\n" * 1000)
    code = Lines(tree.read("train.py"))
    tree.read = lambda _: code
    [finding] = judge_notebook_code(tree, COMMAND, files_reached(tree, COMMAND)).findings
    assert finding.message.endswith("as in `!a`: lines 1, 2, 3, 4, 5, 6, 7, 8, ...")


def test_exactly_as_many_lines_as_the_message_holds_are_all_named() -> None:
    [finding] = judged("!a\n" * MOST_LINES + "x = 1\n")
    assert finding.message.endswith("lines 1, 2, 3, 4, 5, 6, 7, 8")


@pytest.mark.parametrize("size", [LARGEST_BYTES + 1, 8 * LARGEST_BYTES])
def test_a_file_too_large_for_a_script_is_not_judged(size: int) -> None:
    assert judged("!a\n".ljust(size)) == []


@pytest.mark.parametrize(
    "code",
    [
        f"from IPython import get_ipython\n{SYSTEM}",
        f"if 'get_ipython' in globals():\n    {SYSTEM}",
        f"try:\n    {SYSTEM}except NameError:\n    pass\n",
        f"def install():\n    {SYSTEM}",
        "from IPython.display import display\ndisplay(1)\n",
        "from fastai.basics import *\ndisplay(1)\n",
        "text = '''\n!pip install peft\n%matplotlib inline\n'''\n",
        "x = (5\n%three)\n",
        "x = 1 +\n",
    ],
)
def test_code_that_plain_python_runs_is_not_reported(code: str) -> None:
    assert judged(code) == []


def test_a_script_that_ipython_runs_is_not_reported() -> None:
    assert judged(SYSTEM, ("ipython", "train.py")) == []


@pytest.mark.parametrize("command", [("python", "lab.ipynb"), ("accelerate", "launch", "./lab.ipynb", "--epochs", "1")])
def test_a_command_that_starts_a_notebook_is_reported(command: tuple[str, ...]) -> None:
    [finding] = judged("", command)
    assert (finding.check, finding.where) == ("notebook-code", "command")
    assert finding.hint.startswith("save the notebook as a Python script (in Jupyter: File,")
    assert finding.hint.endswith("then name the script in `command:`") and "nbconvert" not in finding.hint


@pytest.mark.parametrize(
    "command",
    [("jupyter", "execute", "lab.ipynb"), ("python", "train.py", "lab.ipynb"), ("python", "other.ipynb"), ("python",)],
)
def test_a_command_that_only_reads_a_notebook_is_not_reported(command: tuple[str, ...]) -> None:
    assert judged("", command) == []


def test_a_script_that_starts_programs_is_judged_too() -> None:
    assert [one.where for one in judged(f"import subprocess\n{SYSTEM}")] == ["train.py:2"]
