"""Diagnosing a log: timestamps, ranks, terminal colours, unrecognised errors, logs without errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.diagnose import UNKNOWN, diagnose_log, diagnose_text
from pipeline.diagnosis.lines import parse_log
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from tests.pipeline.diagnosis.logs import UNSCALE, checks

HEALTHY = sorted((Path(__file__).parent / "healthy").glob("*.log"))


def test_the_earliest_error_comes_first_with_its_line():
    first = diagnose_text("loading\n" + UNSCALE + "RuntimeError: CUDA out of memory.\n")[0]
    assert first.check == "fp16-unscale"
    assert first.where == "train.py:90 in <module>: trainer.train(); line 7"
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
    assert finding.where == "train.py:90 in <module>: trainer.train(); line 6, rank 1"
    default = diagnose_text(log.replace("[rank1]:", "[default3]:"))[0]
    assert default.where == "train.py:90 in <module>: trainer.train(); line 6, rank 3"


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
    assert finding.where == "a.py:1 in f: g(); line 4"


HEAD = 'Traceback (most recent call last):\n  File "own.py", line 7, in main\n    decode(x)\n'
LIBRARY_FRAME = '  File "/v/lib/python3.11/site-packages/lib.py", line 90, in decode\n    raise TypeError(x)\n'


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("OddError: Box(\n  (a): List(\n  )\n) is no tensor\n", "OddError: Box( (a): List( ) ) is no tensor"),
        ("OddError: Decoder(\n", "OddError: Decoder("),
        ("OddError: first\n  second, indented\nother output\n", "OddError: first second, indented"),
        ("OddError: first\nother output\n", "OddError: first"),
        ("OddError: first (\n\nother output\n", "OddError: first ("),
        (f"OddError: {'x' * 300} (\n{'y' * 300}\nz\n", f"OddError: {'x' * 300} ({' ' + 'y' * 300}"[:400] + " ..."),
    ],
)  # fmt: skip
def test_an_unrecognised_error_has_its_whole_message_and_the_last_own_line(output, message):
    [finding] = diagnose_text(HEAD + LIBRARY_FRAME + output, "out.log")
    assert finding.message == f"unrecognised error: {message}"
    assert finding.where == "own.py:7 in main: decode(x); out.log, line 6"


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


@pytest.mark.parametrize(
    ("modules", "named"),
    [
        (["librosa"], "librosa"),
        (["librosa", "librosa"], "librosa"),
        (["speechbrain", "my_pkg.sub"], "speechbrain, my_pkg.sub"),
    ],
)
def test_missing_modules_are_named_in_the_message(modules, named):
    head = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    import x\n'
    log = "".join(f"{head}ModuleNotFoundError: No module named '{module}'\n" for module in modules)
    [finding] = diagnose_text(log)
    assert finding.check == "module-missing"
    assert finding.message.endswith(f": {named}")


@pytest.mark.parametrize(
    ("line", "check", "message"),
    [
        (
            "finetune.py: error: argument --use_adalora: invalid strtobool value: ''",
            "argument-value",
            "The script's argument parser rejects the value of an option: --use_adalora: invalid strtobool value: ''",
        ),
        (
            "[rank0]: src/fit.py: error: argument -b/--batch: invalid choice: 3 (choose from 2, 4)",
            "argument-value",
            "rejects the value of an option: -b/--batch: invalid choice: 3 (choose from 2, 4)",
        ),
        ("fit.py: error: argument --fp16: not allowed with argument --bf16", "arguments", "does not define an option"),
        ("fit.py: error: unrecognized arguments: --bf16", "arguments", "does not define an option"),
    ],
)
def test_an_option_with_a_wrong_value_is_not_an_undefined_option(line, check, message):
    [finding] = diagnose_text(f"usage: fit.py [-h]\n{line}\n")
    assert finding.check == check
    assert message in finding.message


def test_only_entries_with_a_name_group_add_names():
    named = [entry for entry in load_catalog() if entry.named]
    assert all(entry.pattern.groups and all(entry.name_in(sample) for sample in entry.samples) for entry in named)
    assert "module-missing" in {entry.id for entry in named}
    assert diagnose_log(UNSCALE)[0].names == ()
