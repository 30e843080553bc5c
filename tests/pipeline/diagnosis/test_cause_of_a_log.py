"""Which error of a log is the cause: not a handled, quoted, mentioned or old one."""

from __future__ import annotations

import pytest

from pipeline.diagnosis.diagnose import UNKNOWN, diagnose_text
from remote.protocol.findings import Severity
from tests.pipeline.diagnosis.logs import UNSCALE, checks

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
            id="non-fatal errors come last",
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


def test_a_non_fatal_error_beside_a_warning_is_not_reported():
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
def test_a_device_side_assertion_is_the_cause_of_a_later_cublas_error(log):
    assert checks(log) == ["device-assert", "cudnn-init"]


def test_a_traceback_behind_a_progress_bar_or_timestamps_is_one():
    bar = "  3%|##   | 1/40 [00:01<00:40,  1.2it/s]"
    stamped = "".join(f"2024-05-01 12:00:01 {line}\n" for line in UNSCALE.replace("FP16", "strange").splitlines())
    assert checks(bar + UNSCALE.replace("FP16", "strange")) == [UNKNOWN]
    [finding] = diagnose_text(stamped)
    assert finding.message == "unrecognised error: ValueError: Attempting to unscale strange gradients."


def test_a_known_consequence_on_two_ranks_is_not_reported_as_unrecognised():
    assert checks(f"[rank0]: {CUBLAS}[rank1]: {CUBLAS}") == ["cudnn-init"]


def test_a_model_path_that_exists_only_on_the_laptop_is_one_finding_about_the_path():
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


PEER_IS_GONE = [
    "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1691, remote process exited or there "
    "was a network error, NCCL version 2.19.3\n[rank1]: ncclRemoteError: A call failed due to a network error.",
    "torch.distributed.DistStoreError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
    "c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
    "torch.distributed.DistNetworkError: Connection reset by peer",
    "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
    "rank 0. Please check rank 0 logs for faulty rank.",
]


@pytest.mark.parametrize("consequence", PEER_IS_GONE)
@pytest.mark.parametrize(("cause", "check"), [(OOM, "cuda-oom"), ("KeyError: 'labels'\n", UNKNOWN)])
def test_the_loss_of_a_peer_is_the_consequence_of_its_error_even_if_it_is_printed_first(consequence, cause, check):
    assert checks(f"[rank1]: {consequence}\n[rank0]: {cause}") == [check, "peer-closed"]
    assert checks(f"[rank0]: {cause}[rank1]: {consequence}\n") == [check, "peer-closed"]


def test_an_error_of_nccl_itself_is_a_cause():
    error = "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error, NCCL version 2.19.3\n"
    assert checks(f"[rank1]: {error}") == ["nccl"]
    assert checks("[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:1, invalid usage\n") == ["nccl"]
