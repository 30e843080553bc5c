"""Configs and hosts: every problem told at once, with file, line and key path. Case ids are those of the fault list."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pipeline.config.document import LIMITS
from pipeline.config.load import load_config, load_host
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding

GOOD = "project: .\nmodel: {id: tiny/phi4-multimodal}\ndata: {dataset: tiny-speech}\n"


def write(root: Path, text: str | bytes, name: str = "mine") -> Path:
    path = root / "configs" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> tuple[Finding, ...]:
    with pytest.raises(HalfstepError) as caught:
        load_config(name, root, overrides)
    assert caught.value.exit_code is ExitCode.USAGE
    error = caught.value
    return error.findings or (Finding("config", "error", error.message, error.where, error.hint),)  # type: ignore[arg-type]


def told(root: Path, name: str = "mine", overrides: tuple[str, ...] = ()) -> str:
    return "\n".join(f"{f.where} {f.message} {f.hint}" for f in problems(root, name, overrides))


@pytest.mark.parametrize(
    ("case", "text", "words"),
    [
        ("BI-01 empty", "", ["config is empty", "mine.yaml"]),
        ("BI-01 only a comment", "# nothing\n", ["config is empty"]),
        ("BI-02 syntax", "a: [1, 2\nb: 3\n", ["mine.yaml:2", "b: 3"]),
        ("BI-03 tab", "train:\n\tepochs: 3\n", ["tab", "mine.yaml:2"]),
        ("BI-04 duplicate", GOOD + "project: ..\n", ["written twice", "1 and 4"]),
        (
            "BI-05 unknown key",
            GOOD + "train: {lerning_rate: 1}\n",
            ["train.lerning_rate", "did you mean learning_rate"],
        ),
        ("BI-06 wrong type", GOOD + 'train: {epochs: "22a"}\n', ["train.epochs", "integer", "'22a'"]),
        ("BI-07 norway", GOOD + "precision: no\n", ["precision"]),
        ("BI-07 norway in a string", GOOD + "env: {COUNTRY: no}\n", ["env.COUNTRY", "boolean", "quote it"]),
        ("BI-08 tag", "a: !!python/object/apply:os.system ['touch canary']\n", ["refused"]),
        ("BI-12 nan", GOOD + "train: {learning_rate: .nan}\n", ["train.learning_rate", "finite"]),
        ("BI-12 infinite", GOOD + "train: {learning_rate: .inf}\n", ["finite"]),
        ("BI-12 1e400", GOOD + "train: {learning_rate: 1e400}\n", ["finite"]),
        ("BI-13 zero", GOOD + "train: {batch_size: 0}\n", ["train.batch_size", "greater than 0"]),
        ("BI-13 negative", GOOD + "train: {max_steps: -5}\n", ["train.max_steps"]),
        ("BI-13 huge", GOOD + "train: {batch_size: 1000000000000}\n", ["train.batch_size"]),
        ("BI-14 no checkpoint", GOOD + "train: {save_steps: 50, max_steps: 10}\n", ["no checkpoint would be written"]),
        ("BI-18 missing script", "project: .\ncommand: [python, src/train.py]\n", ["src/train.py", "there is no"]),
        ("BI-18 missing data", "model: {id: tiny/x}\ndata: {path: corpus}\n", ["corpus"]),
        ("BI-19 outside", "command: [python, ../../etc/train.py]\n", ["outside the project"]),
        ("BI-19 collator outside", GOOD + "fixers: {data-collator: {path: ../c.py}}\n", ["outside the project"]),
        ("not a mapping", "- 1\n- 2\n", ["key: value"]),
        ("no model", "data: {dataset: tiny-speech}\n", ["built-in trainer needs a model"]),
        ("unknown data set", "model: {id: tiny/x}\ndata: {dataset: tinyspeech}\n", ["no hub dataset"]),
    ],
)
def test_a_bad_config_names_place_and_reason(tmp_path: Path, case: str, text: str, words: list[str]) -> None:
    write(tmp_path, text)
    said = told(tmp_path)
    for word in words:
        assert word in said, f"{case}: {word!r} not in {said!r}"


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: x, batch_size: 0}\nlorra: {}\n")
    assert len(problems(tmp_path)) == 3


def test_BI_08_a_tag_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a: !!python/object/apply:os.system ['touch canary']\n")
    problems(tmp_path)
    assert not (tmp_path / "canary").exists()


def test_BI_09_aliases_do_not_explode(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    write(tmp_path, "\n".join(lines))
    began = time.monotonic()
    assert "more than" in told(tmp_path) or "deep" in told(tmp_path)
    assert time.monotonic() - began < 5


def test_BI_10_a_huge_config_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "#" * LIMITS.bytes)
    assert str(LIMITS.bytes) in told(tmp_path)


def test_BI_11_bytes_that_are_no_text_are_named_by_offset(tmp_path: Path) -> None:
    write(tmp_path, GOOD.encode() + b"env: {A: \xff}\n")
    assert f"byte {len(GOOD) + 9}" in told(tmp_path)


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n").encode()])
def test_BI_11_a_byte_order_mark_and_crlf_are_read(tmp_path: Path, text: bytes) -> None:
    write(tmp_path, text)
    assert load_config("mine", tmp_path).config.data.dataset == "tiny-speech"


def test_BI_15_missing_directory_and_unreadable_are_three_messages(tmp_path: Path) -> None:
    (tmp_path / "configs" / "folder.yaml").mkdir(parents=True)
    closed = write(tmp_path, GOOD, "closed")
    closed.chmod(0)
    said = [told(tmp_path, "configs/nothing.yaml"), told(tmp_path, "configs/folder.yaml")]
    if os.getuid() != 0:
        said.append(told(tmp_path, "configs/closed.yaml"))
    assert len(set(said)) == len(said)
    assert "there is no config" in said[0]
    assert "is a directory" in said[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train: {fp16: true, bf16: true}\n", ["train.fp16: no such key", "train.bf16: no such key", "mine.yaml:4"]),
        ("fp16: true\nbf16: true\n", ["fp16: no such key", "bf16: no such key", "precision"]),
        ("precision: [fp16-mixed, bf16]\n", ["precision: should be", "'fp16-mixed'", "got ['fp16-mixed', 'bf16']"]),
        ("precision: fp16-mixed\nprecision: bf16\n", ["precision: written twice, in lines 4 and 5"]),
    ],
)
def test_BI_17_two_precisions_cannot_be_asked_for(tmp_path: Path, text: str, words: list[str]) -> None:
    """There is one key for it; every way to name two is told as what it is."""
    write(tmp_path, GOOD + text)
    said = told(tmp_path)
    for word in words:
        assert word in said, said


@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_BI_16_what_is_not_a_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "c.yaml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path = Path("/dev/zero")
    with pytest.raises(HalfstepError, match="not a regular file"):
        load_config(str(path) if kind == "fifo" else "/dev/zero", tmp_path)


def test_a_name_that_is_almost_right_is_named(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "paper_r65")
    with pytest.raises(HalfstepError) as caught:
        load_config("paper_r6", tmp_path)
    assert "paper_r6" in caught.value.hint


def test_the_projects_config_comes_before_the_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "train: {epochs: 7}\n", "tiny")
    assert load_config("tiny", tmp_path).config.train.epochs == 7


@pytest.mark.parametrize(
    ("override", "value"),
    [("train.learning_rate=1e-5", 1e-5), ("train.learning_rate=2", 2.0), ("train.learning_rate=0.1", 0.1)],
)
def test_set_overrides_a_key(tmp_path: Path, override: str, value: float) -> None:
    write(tmp_path, GOOD)
    assert load_config("mine", tmp_path, [override]).config.train.learning_rate == value


def test_set_reaches_lists_and_new_sections(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    config = load_config("mine", tmp_path, ["data.tasks=[mdd]", "lora.r=4"]).config
    assert (config.data.tasks, config.lora.r) == (("mdd",), 4)


@pytest.mark.parametrize("override", ["train.epochs", "=3", "train.epochs=[1"])
def test_a_set_that_cannot_be_meant_is_refused(tmp_path: Path, override: str) -> None:
    write(tmp_path, GOOD)
    assert "--set" in told(tmp_path, overrides=(override,))


def test_a_set_with_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert "epochs" in told(tmp_path, overrides=("train.epoch=3",))


def test_a_host_without_a_file_is_an_alias(tmp_path: Path) -> None:
    assert load_host("gpubox", tmp_path).config.host == "gpubox"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("host: a\nport: 0\n", "port"),
        ("host: a\nport: 65536\n", "port"),
        ("host: a\nport: 22.5\n", "port"),
        ("user: me\n", "host"),
        ("host: a\ncard: titan-rx\n", "titan-rtx"),
        ("host: a\nscheduler: pbs\n", "scheduler"),
    ],
)
def test_a_bad_host_file_is_told(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "h.yaml"
    path.write_text(text)
    with pytest.raises(HalfstepError) as caught:
        load_host(str(path), tmp_path)
    assert any(word in f"{f.message}{f.hint}" for f in caught.value.findings), caught.value.findings
