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
        ("pipeline fix . --card 7.5", "pipeline fix . --card 7.5"),
        ("pipeline stop plain-1", "pipeline stop plain-1"),
        ("", ""),
    ],
)
def test_names_are_added_where_a_verb_needs_them(hint: str, typed: str) -> None:
    assert complete_hint(hint, "titan", "my run") == typed


def test_what_overrides_keys_is_typed_again() -> None:
    given = overrides_in(["verify", "--set", "host.python=/my env/python", "--json", "--set=train.epochs=2"])
    assert complete_hint("pipeline run", "titan", "a", given) == (
        "pipeline run --host titan --config a --set 'host.python=/my env/python' --set train.epochs=2"
    )


@pytest.mark.parametrize(
    ("words", "wrong", "line"),
    [
        (["plan", "--host", "t", "--config", "tny"], "tny", "pipeline plan --host t --config tiny"),
        (["plan", "--config=tny", "--json"], "tny", "pipeline plan --config=tiny --json"),
        (["tny", "--config", "tny"], "tny", "pipeline tny --config tiny"),
        (["plan", "--config", "other"], "tny", ""),
    ],
)
def test_a_word_that_was_wrong_is_put_right_in_the_line_that_was_typed(words: list[str], wrong: str, line: str) -> None:
    assert corrected_command(words, wrong, "tiny") == line


def test_nothing_is_made_up_where_no_config_is_known() -> None:
    assert complete_hint("pipeline run", "titan", "") == "pipeline run"


def test_a_hint_names_host_and_config_as_they_were_typed() -> None:
    given = selection_arguments("rigs/my box.yaml", "a.yaml", ("--set", "lora.r=4"))
    typed = "pipeline run --host 'rigs/my box.yaml' --config a.yaml --set lora.r=4"
    assert complete_hint("pipeline run", "my box", "a", given) == typed


def test_words_that_are_kept_name_files_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
