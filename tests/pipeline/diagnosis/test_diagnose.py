"""Diagnosing a log: timestamps, ranks, terminal colours, unrecognised errors, logs without errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import UNKNOWN, diagnose_log, diagnose_text
from pipeline.diagnosis.lines import parse_log
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity

HEALTHY = sorted((Path(__file__).parent / "healthy").glob("*.log"))

UNSCALE = """Traceback (most recent call last):
  File "train.py", line 90, in <module>
    trainer.train()
  File "torch/amp/grad_scaler.py", line 264, in _unscale_grads_
    raise ValueError("Attempting to unscale FP16 gradients.")
ValueError: Attempting to unscale FP16 gradients.
"""


def checks(text):
    return [finding.check for finding in diagnose_text(text)]


def test_the_earliest_error_comes_first_with_its_line():
    first = diagnose_text("loading\n" + UNSCALE + "RuntimeError: CUDA out of memory.\n")[0]
    assert first.check == "fp16-unscale"
    assert first.where == "line 7"
    assert exit_code_of([first], ExitCode.TRAINING) is ExitCode.TRAINING
    assert exit_code_of([first], ExitCode.PRECISION) is ExitCode.PRECISION
    assert "float32" in first.hint


def test_a_consequence_comes_after_its_cause_even_where_it_was_printed_first():
    log = (
        "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)\n"
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    assert checks(log) == ["cuda-oom", "nccl-timeout", "child-failed"]


def test_a_rank_is_taken_from_its_prefix():
    log = "\n".join(f"[rank1]: {line}" for line in UNSCALE.splitlines())
    finding = diagnose_text(log)[0]
    assert finding.where == "line 6, rank 1"
    default = diagnose_text(log.replace("[rank1]:", "[default3]:"))[0]
    assert default.where == "line 6, rank 3"


def test_source_lines_of_a_traceback_are_not_messages():
    log = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    raise MemoryError("CUDA out of memory")\n'
        '  File "b.py", line 2, in g\nValueError: Attempting to unscale FP16 gradients.\n'
    )
    assert checks(log) == ["fp16-unscale"]


def test_context_is_of_the_same_rank():
    mixed = "[rank0]: zero\n[rank1]: one\n[rank0]: two\n[rank1]: CUDA out of memory\n"
    assert diagnose_log(mixed)[0].context == ("one", "CUDA out of memory")


def test_colours_and_progress_bars_hide_nothing():
    log = "  3%|##   | 1/40\r\x1b[31mRuntimeError\x1b[0m: CUDA out of memory\r\n"
    assert checks(log) == ["cuda-oom"]
    assert [line.text for line in parse_log("a\rb")] == ["a", "b"]


def test_an_unrecognised_error_is_reported_with_its_first_traceback():
    log = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nmylib.OddError: what now\n'
    finding = diagnose_text(log)[0]
    assert finding.check == UNKNOWN
    assert "mylib.OddError: what now" in finding.message
    assert finding.where == "line 4"


def test_an_unrecognised_error_comes_before_its_recognised_consequences():
    log = (
        '[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 1\n[rank1]: OddError: what\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    assert checks(log) == [UNKNOWN, "child-failed"]


def test_a_warning_that_explains_an_error_comes_after_it():
    log = (
        "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
        "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn\n"
    )
    assert checks(log) == ["no-grad", "none-inputs-grad"]


def test_one_infinite_gradient_norm_is_the_scaler_at_work_and_five_are_not():
    line = "{'loss': 3.42, 'grad_norm': inf, 'learning_rate': 0.0}\n"
    assert checks(line) == []
    assert checks(line * 5) == ["gradnorm-nan"]


def test_a_log_may_come_line_by_line():
    assert [f.check for f in diagnose_text(iter(UNSCALE.splitlines(keepends=True)))] == ["fp16-unscale"]


def test_there_is_a_corpus_of_healthy_logs():
    assert len(HEALTHY) >= 6


@pytest.mark.parametrize("log", HEALTHY, ids=lambda path: path.stem)
def test_a_healthy_log_raises_nothing(log):
    assert diagnose_text(log.read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize(
    "end", ["Exception: the dataset is empty", "mypkg.errors.AudioTooLong: utterance 7 has 45 s", "struct.error: short"]
)
def test_a_traceback_ends_with_any_class_of_any_name(end):
    log = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n{end}\n'
    [finding] = diagnose_text(log)
    assert finding.check == UNKNOWN
    assert end in finding.message


def test_a_line_of_a_logger_within_a_traceback_is_not_its_end():
    log = 'Traceback (most recent call last):\nINFO: saving\n  File "a.py", line 1, in f\nOddError: what\n'
    assert "OddError" in diagnose_text(log)[0].message


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n"
FINISH = "{'train_runtime': 120.3, 'train_loss': 1.9}\n"
STEP = "{'loss': 2.1, 'grad_norm': 1.0}\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        pytest.param(OOM + STEP + FINISH, [], id="caught, and trained to the end"),
        pytest.param(OOM + STEP, ["cuda-oom"], id="steps behind it may have waited in a buffer"),
        pytest.param(STEP + FINISH + OOM, ["cuda-oom"], id="after the training"),
        pytest.param(OOM + FINISH + OOM, ["cuda-oom"], id="caught once, and not the second time"),
        pytest.param(
            OOM + FINISH + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
            ["cuda-oom", "child-failed"],
            id="one rank finished and another did not",
        ),
        pytest.param(
            OOM + FINISH + "ValueError: Attempting to unscale FP16 gradients.\n",
            ["fp16-unscale", "cuda-oom"],
            id="what was survived is told last",
        ),
        pytest.param(
            "{'loss': 0.0, 'grad_norm': nan}\n" + FINISH, ["loss-zero-or-nan"], id="a training on NaN that finished"
        ),
    ],
)
def test_a_non_fatal_error_is_not_reported_as_the_cause(log, expected):
    assert checks(log) == expected


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ('text="CUDA out of memory"', False),
        ('RuntimeError: "CUDA out of memory" was raised', True),
        ('{"message": "CUDA out of memory", "level": "error"}', True),
        ('said "no" and then CUDA out of memory', True),
    ],
)
def test_quoted_words_count_only_in_an_error_or_a_json_log(line, counts):
    assert checks(line) == (["cuda-oom"] if counts else [])


def test_a_non_fatal_error_is_no_error_beside_a_warning():
    log = "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n" + OOM + FINISH
    assert [(one.check, one.severity.value) for one in diagnose_text(log)] == [
        ("none-inputs-grad", "warning"),
        ("cuda-oom", "info"),
    ]


WITHOUT_TRACEBACK = [
    "ValueError: no header stood above this",
    "ImportError: cannot import name 'x' from 'y'",
    "mylib.errors.TooLongError: utterance 7",
    "AssertionError",
    "[rank1]: ValueError: on one rank only",
    "[default1]:[rank1]: ValueError: behind two prefixes",
    "2024-05-01 12:00:01,123 ValueError: behind a timestamp",
    "[rank1]: 2024-05-01T12:00:01.123Z ValueError: behind both",
    "2024-05-01 12:00:01 - train - ERROR - ValueError: behind a logger",
    "ERROR:root:ValueError: behind a logger",
    "2024-05-01 12:00:01.123 | ERROR    | __main__:main:12 - ValueError: behind another logger",
    "Training failed: KeyError: 'labels'",
    "\x1b[31m\x1b[1mValueError\x1b[0m: in colours",
    "  3%|##   | 1/40 [00:01<00:40,  1.2it/s, loss=2.1]ValueError: behind a bar",
    "  3%|##   | 1/40\rValueError: in the place of a bar\r",
    "terminate called after throwing an instance of 'c10::Error'\n  what():  tensor has no storage\nfoo",
    "terminate called recursively",
    "python: ../csrc/x.cpp:12: void f(): Assertion `n > 0' failed.",
    "Fatal Python error: init_sys_streams: cannot initialise",
    "subprocess.TimeoutExpired: Command 'ffmpeg' timed out",
    "KeyError: 0",
]


@pytest.mark.parametrize("end", WITHOUT_TRACEBACK)
def test_a_log_that_ends_in_an_error_without_a_traceback_is_not_healthy(end):
    [finding] = diagnose_text(f"loading\n{STEP * 3}{end}\nfrom a buffer: loss 2.0 step 4\n")
    assert finding.check == UNKNOWN
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    "mention",
    [
        "caught ValueError: retrying",
        "WARNING: caught ValueError: retrying",
        "ERROR - caught ValueError: bad clip 7; retrying",
        "ValueError: bad clip 7, skipping",
        "OSError: timed out\nretrying in 5 s",
        "train.py:7: UserWarning: ValueError: is mentioned\n  warnings.warn('ValueError: x')",
        "FutureWarning: RuntimeError: will be raised from version 3 on",
        "INFO - ValueError: is what one gets without --flag",
        "the docs say ValueError: is raised here",
        "MeanAbsoluteError: 0.31",
        "Error: 0.12",
        "Exception ignored in: <f>\nTraceback (most recent call last):\n  File \"a.py\", line 1\nTypeError: no",
        "--- Logging error ---\nTraceback (most recent call last):\n  File \"a.py\", line 1\nBrokenPipeError: no",
    ],
)  # fmt: skip
def test_an_exception_that_is_only_mentioned_leaves_a_log_healthy(mention):
    assert checks(f"{STEP * 3}{mention}\n{STEP * 3}") == []


def test_an_old_error_counts_only_if_its_own_rank_did_not_continue():
    error = "[rank1]: ValueError: bad clip\n"
    assert checks(error + f"[rank1]: {STEP}" * 300) == []
    assert checks(error + f"[rank0]: {STEP}" * 300) == [UNKNOWN]


def test_the_first_of_several_ranks_is_the_cause():
    log = "[rank2]: loading\n[rank1]: KeyError: 'labels'\n[rank0]: loading\n[rank0]: ValueError: peers are gone\n"
    [finding] = diagnose_text(log)
    assert finding.where == "line 2, rank 1"
    assert "KeyError: 'labels'" in finding.message


def test_the_message_of_a_cpp_exception_is_shown():
    log = "terminate called after throwing an instance of 'c10::Error'\n  what():  no storage\nframe #0\n"
    assert "no storage" in diagnose_text(log)[0].message
    known = log.replace("no storage", "CUDA error: misaligned address")
    assert checks(known) == ["illegal-access"]


ASSERTION = (
    "Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
)
CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"


@pytest.mark.parametrize("log", [ASSERTION * 3 + CUBLAS, CUBLAS + ASSERTION, f"[rank1]: {CUBLAS}[rank0]: {ASSERTION}"])
def test_an_assertion_on_the_card_is_the_cause_and_what_cublas_says_its_consequence(log):
    assert checks(log) == ["device-assert", "cudnn-init"]


def test_a_traceback_behind_a_progress_bar_or_timestamps_is_one():
    bar = "  3%|##   | 1/40 [00:01<00:40,  1.2it/s]"
    stamped = "".join(f"2024-05-01 12:00:01 {line}\n" for line in UNSCALE.replace("FP16", "strange").splitlines())
    assert checks(bar + UNSCALE.replace("FP16", "strange")) == [UNKNOWN]
    [finding] = diagnose_text(stamped)
    assert finding.message == "unrecognised error: ValueError: Attempting to unscale strange gradients."


def test_a_consequence_on_two_ranks_is_no_unrecognised_error():
    assert checks(f"[rank0]: {CUBLAS}[rank1]: {CUBLAS}") == ["cudnn-init"]


def test_a_model_that_is_a_folder_of_the_laptop_is_one_finding_with_the_path_as_its_cause():
    log = (
        "Traceback (most recent call last):\n"
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "'/Users/me/models/phi'. Use `repo_type` argument if needed.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        "OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/Users/me/models/phi'.\n"
    )
    (finding,) = diagnose_text(log)
    assert finding.check == "repo-id-path" and "a path of the laptop" in finding.message
    assert "data: {path: ...}" in finding.hint


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: '/proc/driver/nvidia'", False),
        ("warning: Unable to find 'libaio', async io is off", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", False),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'D:/sets/a'", True),
        ("[rank1]: FileNotFoundError: Couldn't find any data file at /Users/me/data.", True),
    ],
)
def test_a_missing_file_counts_as_data_only_if_its_path_suggests_it(line, check):
    assert ("dataset-folder-missing" in checks(line + "\n")) is check
