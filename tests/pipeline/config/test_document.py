"""Unusual YAML files: each is read, or refused with its reason."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipeline.config.document import LIMITS
from pipeline.config.load import load_config
from remote.errors import HalfstepError
from tests.pipeline.config.config_files import GOOD, problem_text, problems, write


def test_BI_08_a_tag_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a: !!python/object/apply:os.system ['touch canary']\n")
    problems(tmp_path)
    assert not (tmp_path / "canary").exists()


def test_BI_09_aliases_do_not_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    write(tmp_path, "\n".join(lines))
    began = time.process_time()
    assert "more than" in problem_text(tmp_path) or "deep" in problem_text(tmp_path)
    assert time.process_time() - began < 5


def test_BI_10_a_huge_config_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "#" * LIMITS.bytes)
    assert str(LIMITS.bytes) in problem_text(tmp_path)


def test_BI_11_bytes_that_are_no_text_are_named_by_offset(tmp_path: Path) -> None:
    write(tmp_path, GOOD.encode() + b"env: {A: \xff}\n")
    assert f"byte {len(GOOD) + 9}" in problem_text(tmp_path)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode()])
def test_BI_11_a_byte_order_mark_and_crlf_are_read(tmp_path: Path, text: bytes) -> None:
    write(tmp_path, text)
    assert load_config("mine", tmp_path).config.data.dataset == "tiny-speech"


def test_problems_are_in_the_order_of_lines_and_options_are_last(tmp_path: Path) -> None:
    write(tmp_path, "comand: [python, train.py]\nprecision: fp61\nlogs: {tensorbord: auto}\ntrain: {epochs: three}\n")
    found = problems(tmp_path, overrides=("env.a=[1]",))
    assert [one.where.rpartition(":")[2] for one in found] == ["1", "2", "3", "4", "--set env.a=[1]"]


def test_a_file_that_is_no_yaml_is_called_invalid_yaml(tmp_path: Path) -> None:
    write(tmp_path, "command: [python, train.py\nprecision: auto\n")
    assert "invalid YAML: the [ in line 1 is not closed" in problem_text(tmp_path)
    assert "mine.yaml:2" in problem_text(tmp_path)


@pytest.mark.parametrize(
    ("lines", "place", "problem"),
    [
        (("precision: auto", "command: [[", "grace_s: 5"), "4:", "the [ in line 2 is not closed"),
        (("precision: auto", "train: {epochs: 3,", "", "grace_s: 5"), "5:", "the { in line 2 is not closed"),
        (("precision: 'auto", "grace_s: 5", ""), "4:", "the ' in line 1 is not closed"),
        (("command: [a", " ,b]", "precision: a: b"), "3:13", "mapping values are not allowed"),
        (("command: [a b: c: d]",), "1:", "invalid YAML"),
    ],
)
def test_what_is_not_closed_is_reported_with_the_line_where_it_begins(
    tmp_path: Path, lines: tuple[str, ...], place: str, problem: str
) -> None:
    write(tmp_path, "\n".join(lines) + "\n")
    text = problem_text(tmp_path)
    assert f"mine.yaml:{place}" in text
    assert problem in text


def test_BI_15_a_missing_file_a_folder_and_an_unreadable_file_have_different_messages(tmp_path: Path) -> None:
    (tmp_path / "configs" / "folder.yaml").mkdir(parents=True)
    closed = write(tmp_path, GOOD, "closed")
    closed.chmod(0)
    text_of_problems = [problem_text(tmp_path, "configs/nothing.yaml"), problem_text(tmp_path, "configs/folder.yaml")]
    if os.getuid() != 0:
        text_of_problems.append(problem_text(tmp_path, "configs/closed.yaml"))
    assert len(set(text_of_problems)) == len(text_of_problems)
    assert "there is no config" in text_of_problems[0]
    assert "is a directory" in text_of_problems[1]


@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_BI_16_what_is_not_a_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
    with pytest.raises(HalfstepError, match="not a regular file"):
        load_config(str(path) if kind == "fifo" else "/dev/zero", tmp_path)
