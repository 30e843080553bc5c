"""Keys set with `--set`, and the problems reported for them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.config.load import load_config
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from tests.pipeline.config.config_files import GOOD, problem_text, problems, write


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
def test_an_invalid_set_is_refused(tmp_path: Path, override: str) -> None:
    write(tmp_path, GOOD)
    assert "--set" in problem_text(tmp_path, overrides=(override,))


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epoch=3", "train.epoch: unknown key; did you mean epochs?"),
        ("train.lr=3", "train.lr: unknown key; did you mean learning_rate?"),
        ("train={epochs: x}", "train.epochs: should be"),
        ("model.revision=abc", "model.id: is required"),
        ("fixers.port=of", "fixers.port: should be auto"),
        ("data.path=nowhere", "data.path: there is no nowhere"),
    ],
)
def test_a_problem_of_a_set_names_the_set_and_not_the_file(tmp_path: Path, override: str, words: str) -> None:
    write(tmp_path, "project: .\ncommand: [look]\n")
    (found,) = problems(tmp_path, overrides=(override,))
    assert (found.where, words in found.message) == (f"--set {override}", True), found


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("env.A=1", "--set 'env.A=\"1\"'"),
        ("train.lr=1e-5", "--set train.learning_rate=1e-5"),
        ("train.zzz=1", "pipeline docs configuration"),
        ("secrets=HF_TOKEN", "--set 'secrets=[HF_TOKEN]'"),
        ("model=tiny", "--set 'model={id: tiny}'"),
        ("fixers.port=of", "--set fixers.port=off"),
        ("fixers={port: of}", "fixers: {port: off}"),
        ("env={A: 1}", 'A: "1"'),
    ],
)
def test_the_hint_of_a_bad_set_is_a_set_that_can_be_typed(tmp_path: Path, override: str, hint: str) -> None:
    write(tmp_path, "project: .\ncommand: [look]\n")
    (found,) = problems(tmp_path, overrides=(override,))
    assert found.hint == hint
    if hint.startswith("--set") and "x.py" not in hint:
        load_config("mine", tmp_path, shlex.split(hint)[1:])


def test_the_hint_of_a_bad_set_of_the_host_keeps_its_prefix(tmp_path: Path) -> None:
    with pytest.raises(HalfstepError) as caught:
        load_host("local", tmp_path, ["host.gpus=0"])
    assert [found.hint for found in caught.value.findings] == ["--set 'host.gpus=[0]'"]


def test_a_problem_of_the_file_names_the_file_beside_a_set(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "lora: {r: x}\n")
    assert [found.where.rpartition(":")[2] for found in problems(tmp_path, overrides=("lora.alpha=4",))] == ["4"]


@pytest.mark.parametrize(
    ("override", "words"), [("host.prt=1", "host.prt: unknown key; did you mean port?"), ("host.port=x", "host.port:")]
)
def test_a_problem_of_a_set_of_the_host_names_the_set(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(HalfstepError) as caught:
        load_host("titan", tmp_path, [override])
    (found,) = caught.value.findings
    assert (found.where, words in found.message) == (f"--set {override}", True), found


def test_SE_18_a_set_of_too_many_digits_is_reported_without_them(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    text = problem_text(tmp_path, overrides=(f"train.seed={'7' * 50_000}",))
    assert "a number has 50000 digits" in text
    assert len(text) < 1000


def test_SE_19_a_set_of_a_host_variable_with_a_nul_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "host: gpubox\n", "hosts/box")
    with pytest.raises(HalfstepError) as caught:
        load_host("box", tmp_path, ['host.env.A="x\\0"'])
    assert caught.value.exit_code is ExitCode.USAGE
    assert "must not contain a NUL" in caught.value.findings[0].message
