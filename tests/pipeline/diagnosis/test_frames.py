"""Finding the line of the user's own code in a traceback, in logs of the host and of the laptop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.diagnosis.diagnose import diagnose_log
from pipeline.diagnosis.frames import Frame

RUN = "/home/me/halfstep/projects/speech-0a1b2c3d/runs/own-12345678/code/"
PACKAGE = (
    '  File "/venv/lib/python3.11/site-packages/torch/amp/grad_scaler.py", line 264, in _unscale_grads_\n    raise it\n'
)
ERROR = "ValueError: Attempting to unscale FP16 gradients.\n"


def traceback(*frames, error=ERROR):
    return "Traceback (most recent call last):\n" + "".join(frames) + error


def frame(path, line, function, code=""):
    return f'  File "{path}", line {line}, in {function}\n' + (f"    {code}\n" if code else "")


def the_frame(log):
    return diagnose_log(log)[0].frame


def test_the_innermost_line_of_the_project_is_named_by_its_path_in_the_project():
    log = traceback(frame(RUN + "train.py", 9, "<module>", "main()"), frame(RUN + "src/loop.py", 7, "step"), PACKAGE)
    assert the_frame(log) == Frame("src/loop.py", 7, "step", "")
    assert str(the_frame(log)) == "src/loop.py:7 in step"


@pytest.mark.parametrize("folder", ["scratch/proof-1aa117c2-18006-8458857/run/code", "scratch/proof-1/other", "tree"])
def test_a_file_of_a_proof_is_named_by_its_path_in_the_project(folder):
    log = traceback(frame(f"/home/me/halfstep/projects/speech-0a1b2c3d/{folder}/code/train.py", 4, "f"))
    assert the_frame(log).path == "code/train.py"


def test_the_caret_markers_below_a_line_of_code_are_not_part_of_it():
    log = traceback(frame("train.py", 9, "main", "trainer.train()"), "    ~~~~~~~~~~~~~^^\n", PACKAGE)
    assert the_frame(log) == Frame("train.py", 9, "main", "trainer.train()")


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(ERROR, id="no-traceback"),
        pytest.param(traceback(PACKAGE), id="only-packages"),
        pytest.param(traceback(frame("<frozen runpy>", 198, "_run")), id="frozen"),
        pytest.param(traceback(frame("/usr/lib/python3.11/runpy.py", 198, "_run")), id="standard-library"),
        pytest.param(
            traceback(frame("a.py", 1, "f"), error="KeyError: 1\n") + "Epoch 1\n" + ERROR,
            id="another-error's-traceback",
        ),
    ],
)
def test_without_a_line_of_the_project_no_line_is_named(log):
    (found,) = diagnose_log(log)
    assert found.check == "fp16-unscale"
    assert found.frame is None


def test_interleaved_tracebacks_of_two_ranks_have_separate_frames():
    one = traceback(frame("one.py", 1, "f", "x = 1"), PACKAGE).splitlines()
    two = traceback(frame("two.py", 2, "g", "y = 2"), PACKAGE, error="MemoryError: CUDA out of memory.\n").splitlines()
    mixed = "\n".join(
        line for pair in zip(one, two, strict=True) for line in (f"[rank0]: {pair[0]}", f"[rank1]: {pair[1]}")
    )
    assert {found.line.rank: str(found.frame) for found in diagnose_log(mixed)} == {
        0: "one.py:1 in f",
        1: "two.py:2 in g",
    }


def test_the_frame_of_a_chained_exception_is_the_one_that_ended_the_program(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "def load():\n    raise KeyError('x')\n"
        "def step():\n    try:\n        load()\n    except KeyError as why:\n"
        "        raise RuntimeError('Attempting to unscale FP16 gradients.') from why\n"
        "step()\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert str(the_frame(done.stderr)) == f"{script}:7 in step"


@pytest.mark.parametrize("broken", ["train.py", "own.py"])
@pytest.mark.parametrize("code", ["x = (1\n", "def f():\nreturn 1\n"])
def test_a_syntax_error_names_the_file_that_does_not_parse(tmp_path, broken, code):
    files = {"train.py": "print('  File')\nimport own\n", "own.py": "", broken: code}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    (found,) = diagnose_log("  indented output\n" + done.stderr)
    assert (found.check, found.frame.path.rpartition("/")[2]) == ("syntax", broken)
    assert found.frame.code in code.splitlines()


def test_another_error_without_a_traceback_names_no_line():
    log = f'  File "{RUN}train.py", line 6\n    x = (\n{ERROR}'
    assert the_frame(log) is None


@pytest.mark.parametrize("copy", ["scratch/proof-0a-1/run/code", "scratch/0a1b/tree", "runs/own-12345678/code", "tree"])
def test_a_path_in_a_copy_on_the_host_is_a_path_of_the_project(copy):
    log = traceback(frame(f"/home/me/halfstep/projects/speech-0a1b2c3d/{copy}/src/loop.py", 7, "step"))
    assert the_frame(log).path == "src/loop.py"


def test_a_token_in_the_code_is_masked():
    token = "hf_" + "a" * 34
    log = traceback(frame("train.py", 3, "main", f'login("{token}")'))
    assert token not in the_frame(log).code
