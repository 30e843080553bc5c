"""An error is recognised in every form in which launchers, consoles and log collectors write it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from rich.console import Console

from pipeline.diagnosis.diagnose import UNKNOWN, diagnose_text
from tests.pipeline.diagnosis.logs import UNSCALE, checks

STEP = "{'loss': 2.1, 'grad_norm': 1.0}\n"
UNKNOWN_ERROR = UNSCALE.replace("ValueError: Attempting to unscale FP16 gradients.", "ValueError: clip 7 is strange")
PREFIXES = [
    "[rank1]: ",
    "[default1]:",
    "[default1]:[rank1]: ",
    "[trainer1]:",
    "1: ",
    " 1: ",
    "[0,1]<stderr>:",
    "[0,1]<stderr>: ",
    "worker-1: ",
    "(RayTrainWorker pid=4121, ip=10.0.0.2) ",
    "(train pid=4121) ",
    "trainer-1  | ",
    "trainer-1  | [rank1]: ",
    "2026-11-21T12:00:00.123456789Z stderr F ",
    "2026-11-21T12:00:00.1234567Z ",
    "[2026-11-21 12:00:00,123][rank1]: ",
]


def _prefixed(prefix: str, log: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in log.splitlines())


def _rich(log: str) -> str:
    file = io.StringIO()
    try:
        raise ValueError(log.splitlines()[-1].partition(": ")[2])
    except ValueError:
        Console(file=file, width=80).print_exception()
    return file.getvalue()


FORMS: dict[str, Callable[[str], str]] = {
    "256 colours": lambda log: log.replace("ValueError", "\x1b[38:2::255:0:0mValueError\x1b(B\x1b[m"),
    "a link": lambda log: log.replace("ValueError", "\x1b]8;;file:///x\x1b\\ValueError\x1b]8;;\x1b\\"),
    "line ends of Windows": lambda log: log.replace("\n", "\r\n"),
    "a byte order mark": lambda log: "\ufeff" + log,
    "three thousand lines of traceback": lambda log: log.replace(
        "    trainer.train()\n", "    trainer.train()\n" + '  File "a.py", line 1, in f\n    f()\n' * 1500
    ),
    "a box of rich": _rich,
}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_known_and_an_unrecognised_error_are_found_behind_the_prefix_of_a_launcher(prefix):
    assert checks(_prefixed(prefix, STEP + UNSCALE)) == ["fp16-unscale"]
    assert checks(_prefixed(prefix, STEP + UNKNOWN_ERROR)) == [UNKNOWN]
    assert checks(_prefixed(prefix, STEP * 3)) == []


@pytest.mark.parametrize("prefix", ["[rank1]: ", "1: ", " 1: ", "[0,1]<stderr>:", "trainer-1  | [rank1]: "])
def test_the_rank_and_the_frame_are_read_behind_the_prefix(prefix):
    [finding] = diagnose_text(_prefixed(prefix, UNSCALE))
    assert finding.where == "train.py:90 in <module>: trainer.train(); line 6, rank 1"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(("log", "check"), [(UNSCALE, "fp16-unscale"), (UNKNOWN_ERROR, UNKNOWN)])
def test_an_error_is_found_in_every_form(form, log, check):
    assert checks(STEP + form(log)) == [check]


def test_a_message_that_rich_wrapped_is_whole():
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    assert checks(_rich(f"RuntimeError: {message}\n")) == ["no-grad"]
    assert checks(_rich("RuntimeError: " + "one word after another " * 9)) == [UNKNOWN]


def test_an_error_within_a_json_record_is_found():
    record = json.dumps(
        {"log": "RuntimeError: \"LayerNormKernelImpl\" not implemented for 'Half'\n", "stream": "stderr"}
    )
    assert checks(record) == ["half-cpu"]


def test_the_error_that_a_dataloader_worker_raised_is_the_one_shown():
    log = (
        "Traceback (most recent call last):\n"
        '  File "/venv/lib/python3.11/site-packages/torch/_utils.py", line 9, in reraise\n    raise exception\n'
        "KeyError: Caught KeyError in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        '  File "src/data.py", line 7, in __getitem__\n    return row["text"]\n'
        "KeyError: 'text'\n"
    )
    [finding] = diagnose_text(log)
    assert finding.message == "unrecognised error: KeyError: 'text'"
    assert finding.where == 'src/data.py:7 in __getitem__: return row["text"]; line 8'


HEALTHY = [
    "W dso_loader.cc:64] Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open "
    "shared object file: No such file or directory",
    "titan:4121:4121 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file",
    "A matching Triton is not available, some optimizations will not be enabled. Error caught was: No module named "
    "'triton'",
    "flash_attn is not installed (No module named 'flash_attn'), using sdpa instead",
    "could not import flash_attn: No module named 'flash_attn', falling back to sdpa",
    "memory.events: oom 0 oom_kill 0",
    '{"memory.events": {"oom_kill": 0}}',
    "UserWarning: CUDA initialization: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
    "CUDA out of memory with batch size 64, trying 32",
    "torch.OutOfMemoryError: CUDA out of memory with batch=16. Reducing to batch=8 and retrying (1/3).",
    "wandb: WARNING Error communicating with wandb backend, retrying",
    "no nan detected in forward of any module",
    "nan_to_num applied for fully masked rows",
]  # fmt: skip


@pytest.mark.parametrize("line", HEALTHY)
def test_a_line_that_resembles_a_failure_leaves_a_log_healthy(line):
    assert checks(f"{STEP * 3}{line}\n{STEP * 3}") == []


def test_an_error_that_was_handled_once_and_not_the_second_time_is_reported_where_it_was_not_handled():
    log = f"{STEP}CUDA out of memory, trying 32\n{STEP}torch.OutOfMemoryError: CUDA out of memory.\n"
    [finding] = diagnose_text(log)
    assert (finding.check, finding.where) == ("cuda-oom", "line 4")


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("memory.events: oom 1 oom_kill 1", "host-oom"),
        ("oom_kill 10", "host-oom"),
        ("ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory", "cuda-library"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "cuda-unavailable"),
        ("2 nan detected in forward of model.layers.3", "fp16-encoder-overflow"),
    ],
)
def test_the_failure_itself_is_still_reported(line, check):
    assert checks(f"{STEP * 3}{line}\n") == [check]
