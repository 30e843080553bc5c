"""Finding the line of the user's own code in a traceback, in logs of the host and of the laptop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pipeline.diagnosis.diagnose import diagnose_log, diagnose_text
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


HOOK = frame(
    "/home/me/w/projects/speech-0a1b2c3d/scratch/proof-1/hooks/halfstep_hooks/origins.py", 178, "wrapped", "f()"
)
AGENT = frame(f"/home/me/w/payload/{'0a' * 32}.pyz/remote/payload/train.py", 3, "main", "run()")
PROGRAM = frame("/home/me/venv/bin/accelerate", 8, "<module>", "sys.exit(main())")


@pytest.mark.parametrize("error", [ERROR, "OddError: what now\n"], ids=["known", "unrecognised"])
def test_halfstep_s_own_files_and_installed_programs_are_never_the_place_of_an_error(error):
    own = frame(f"{RUN}run_clf.py", 174, "main", "trainer.train()")
    (found,) = diagnose_text(traceback(PROGRAM, own, HOOK, PACKAGE, error=error), "out.log")
    assert found.where == "run_clf.py:174 in main: trainer.train(); out.log, line 10"
    (found,) = diagnose_text(traceback(PROGRAM, HOOK, AGENT, PACKAGE, error=error), "out.log")
    assert found.where == "out.log, line 10"


def test_a_script_of_the_project_in_bin_is_a_place():
    assert the_frame(traceback(frame(f"{RUN}bin/train", 4, "main", "step()"))).path == "bin/train"


def test_an_indented_line_of_a_longer_message_belongs_to_its_traceback():
    error = "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): a\n"
    error += "\tsize mismatch for w: copying a param"
    error += " with shape torch.Size([2]) from checkpoint, the shape in current model is torch.Size([3]).\n"
    (found,) = diagnose_log(traceback(frame("train.py", 5, "load", "net.load_state_dict(s)"), PACKAGE, error=error))
    assert (found.check, found.frame.path) == ("size-mismatch", "train.py")


WORKER_ONLY_PACKAGES = (
    frame(f"{RUN}train.py", 12, "main", "for batch in loader:")
    + PACKAGE
    + "ValueError: Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    + PACKAGE
)
FOLLOWED = (
    PACKAGE + ERROR + "\nDuring handling of the above exception, another exception occurred:\n\n"
    "Traceback (most recent call last):\n" + frame(f"{RUN}train.py", 12, "main", "step()") + PACKAGE
)


@pytest.mark.parametrize(
    "log",
    [traceback(WORKER_ONLY_PACKAGES), traceback(FOLLOWED, error="SystemError: done\n")],
    ids=["worker", "followed"],
)
def test_the_traceback_around_one_in_packages_names_the_line(log):
    assert str(the_frame(log)).startswith("train.py:12 in main")


def test_the_traceback_of_a_later_error_that_did_not_follow_names_no_line():
    later = traceback(frame("other.py", 1, "f", "g()"), error="OddError: later\n")
    assert the_frame(traceback(PACKAGE) + later) is None
    assert the_frame(traceback(PACKAGE) + "Epoch 2\n" * 60 + FOLLOWED + "SystemError: done\n") is None


@pytest.mark.parametrize(
    "code", ["json.loads('{')", "import no_such_module", "raise FileNotFoundError(2, 'No', 'x.csv')"]
)
def test_a_real_error_names_the_line_of_the_script(tmp_path, code):
    script = tmp_path / "train.py"
    script.write_text(f"import json\ndef step():\n    {code}\nstep()\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    found = diagnose_text(done.stderr, "out.log")[0]
    assert found.where.startswith(f"{script}:3 in step: {code}; out.log, line ")
