"""A hint is a command that works as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.messages.hints import (
    complete_hint,
    corrected_command,
    overrides_in,
    selection_arguments,
    with_absolute_paths,
)

NAMES = "--host titan --config 'my run'"


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        ("pipeline run", f"pipeline run {NAMES}"),
        ("pipeline run --until verify", f"pipeline run {NAMES} --until verify"),
        ("if meant: pipeline run --force sync", f"if meant: pipeline run {NAMES} --force sync"),
        ("pipeline fix --only environment", f"pipeline fix {NAMES} --only environment"),
        ("pipeline run --host a --config b", "pipeline run --host a --config b"),
        ("`pipeline fix --host HOST --config NAME --only tokenizer`.", f"`pipeline fix {NAMES} --only tokenizer`."),
        ("pipeline fix . --card 7.5", "pipeline fix . --card 7.5"),
        ("pipeline run   (at a terminal)", f"pipeline run {NAMES}   (at a terminal)"),
        ("pipeline plan  of a project", "pipeline plan  of a project"),
        ("pipeline stop plain-1", "pipeline stop plain-1"),
        ("pipeline hosts check", "pipeline hosts check titan"),
        ("pipeline hosts check rig", "pipeline hosts check rig"),
        ("df -h /data   (on the host)", "df -h /data   (on titan)"),
        ("", ""),
    ],
)
def test_a_hint_adds_names_that_its_verb_needs(hint: str, typed: str) -> None:
    assert complete_hint(hint, "titan", "my run") == typed


@pytest.mark.parametrize(
    ("host", "config", "typed"), [("rig", "", "nvidia-smi   (on rig)"), ("local", "a", "nvidia-smi")]
)
def test_a_command_for_the_host_names_it_unless_it_is_this_machine(host: str, config: str, typed: str) -> None:
    assert complete_hint("nvidia-smi   (on the host)", host, config) == typed


def test_overrides_are_part_of_a_hint() -> None:
    given = overrides_in(["verify", "--set", "host.python=/my env/python", "--json", "--set=train.epochs=2"])
    assert complete_hint("pipeline run", "titan", "a", given) == (
        "pipeline run --host titan --config a --set 'host.python=/my env/python' --set train.epochs=2"
    )


@pytest.mark.parametrize(
    ("hint", "given", "typed"),
    [
        ("pipeline run --set lora.r=4", ("--set", "lora.r=4"), "pipeline run --host t --config a --set lora.r=4"),
        (
            "pipeline run --set lora.r=4, or not",
            ("--set=lora.r=4",),
            "pipeline run --host t --config a --set lora.r=4, or not",
        ),
        (
            "pipeline run --set lora.r=48",
            ("--set", "lora.r=4"),
            "pipeline run --host t --config a --set lora.r=4 --set lora.r=48",
        ),
    ],
)
def test_an_override_is_not_repeated(hint: str, given: tuple[str, ...], typed: str) -> None:
    assert complete_hint(hint, "t", "a", given) == typed


@pytest.mark.parametrize(
    ("words", "wrong", "line"),
    [
        (["plan", "--host", "t", "--config", "tny"], "tny", "pipeline plan --host t --config tiny"),
        (["plan", "--config=tny", "--json"], "tny", "pipeline plan --config=tiny --json"),
        (["tny", "--config", "tny"], "tny", "pipeline tny --config tiny"),
        (["plan", "--config", "other"], "tny", ""),
    ],
)
def test_the_hint_corrects_a_wrong_word_in_the_command(words: list[str], wrong: str, line: str) -> None:
    assert corrected_command(words, wrong, "tiny") == line


def test_a_hint_invents_no_config() -> None:
    assert complete_hint("pipeline run", "titan", "") == "pipeline run"


def test_a_hint_names_host_and_config_as_they_were_typed() -> None:
    given = selection_arguments("rigs/my box.yaml", "a.yaml", ("--set", "lora.r=4"))
    typed = "pipeline run --host 'rigs/my box.yaml' --config a.yaml --set lora.r=4"
    assert complete_hint("pipeline run", "my box", "a", given) == typed


def test_recorded_arguments_name_files_by_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "titan"):
        (tmp_path / name).touch()
    words = ("--host", "titan", "--config", "a.yaml", "--set", "data.path=a.yaml")
    assert with_absolute_paths(words) == (
        "--host",
        "titan",
        "--config",
        f"{tmp_path}/a.yaml",
        "--set",
        "data.path=a.yaml",
    )
