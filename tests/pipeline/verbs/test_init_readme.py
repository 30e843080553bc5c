"""`init` writes the command of the README into the config, or names the lines of the README that it leaves out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config

Typed = Callable[..., tuple[int, str]]
TRAIN = "trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run_pipeline(*words: str) -> tuple[int, str]:
        code = run(list(words))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_pipeline


NAMES = ("--host", "local", "--config", "mine", "--yes")


@pytest.mark.parametrize("named", [(), ("--script", "train.py")])
def test_launcher_arguments_and_variables_of_the_readme_are_in_the_config(
    tmp_path: Path, typed: Typed, named: tuple[str, ...]
) -> None:
    command = "accelerate launch --config_file a.yaml train.py --lora --lora-r 8"
    (tmp_path / "README.md").write_text(f"```bash\nTOKENIZERS_PARALLELISM=true OMP_NUM_THREADS=8 {command}\n```\n")
    code, printed = typed("init", *NAMES, *named)
    assert code == 0 and f"command: {command}" in printed
    assert "env: TOKENIZERS_PARALLELISM=true, OMP_NUM_THREADS=8" in printed
    config = load_config("mine", tmp_path).config
    assert config.command == tuple(command.split())
    assert config.env == {"TOKENIZERS_PARALLELISM": "true", "OMP_NUM_THREADS": "8"}


@pytest.mark.parametrize("name", ["on", "NO", "Null", "y"])
def test_a_variable_of_the_readme_that_is_a_word_of_yaml_is_a_name(tmp_path: Path, typed: Typed, name: str) -> None:
    (tmp_path / "README.md").write_text(f"```bash\n{name}=1 python train.py\n```\n")
    assert typed("init", *NAMES)[0] == 0
    assert load_config("mine", tmp_path).config.env == {name: "1"}


def test_the_lines_of_several_commands_and_the_omitted_variables_are_named(tmp_path: Path, typed: Typed) -> None:
    lines = "CUDA_VISIBLE_DEVICES=0 python train.py --config {}.json\n"
    (tmp_path / "README.md").write_text("# Project\n" + lines.format("v1") + "text\n" + lines.format("v2"))
    code, printed = typed("init", *NAMES)
    words = " ".join(printed.split())
    assert code == 0 and "with other arguments or another launcher (README.md:2, README.md:4)" in words
    assert "complete `command:` in configs/mine.yaml" in words and "also sets CUDA_VISIBLE_DEVICES" in words
    assert load_config("mine", tmp_path).config.command == ("python", "train.py")
    assert "next: complete `command:` in configs/mine.yaml, then run: pipeline " in words


def test_the_next_step_is_a_command_if_the_readme_starts_the_script_as_the_config_does(
    tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "README.md").write_text("```bash\npython train.py --config v1.json\n```\n")
    _, printed = typed("init", *NAMES)
    (hint,) = [line.partition("next: ")[2] for line in printed.splitlines() if "next: " in line]
    assert hint.startswith("pipeline ")


@pytest.mark.parametrize("scripts", [("train.py", "train_two.py"), ()])
def test_the_hint_to_name_a_script_keeps_the_options_that_were_typed(
    tmp_path: Path, typed: Typed, scripts: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    for path in scripts:
        (tmp_path / path).write_text(TRAIN)
    code, printed = typed("init", *NAMES, "--card", "titan-rtx")
    (hint,) = [line.partition("next: ")[2] for line in printed.splitlines() if "next: " in line]
    assert code == 2 and {*NAMES, "--card", "titan-rtx", "--script"} <= {*shlex.split(hint.replace(",", ""))}
    if scripts:
        assert typed(*shlex.split(hint)[1:])[0] == 0
        assert load_config("mine", tmp_path).config.command == ("python", "train.py")
