"""`init` with a settings file as the training script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.load import load_config

Typed = Callable[..., tuple[int, str]]
NAMES = ("--host", "local", "--config", "mine", "--yes")


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    (tmp_path / "lora.yaml").write_text("stage: sft\n")
    (tmp_path / "train.py").write_text("trainer.train()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run_pipeline(*words: str) -> tuple[int, str]:
        code = run(list(words))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run_pipeline


def fenced(*commands: str) -> str:
    return "# Audio\n\n```bash\n" + "\n".join(commands) + "\n```\nEdit lora.yaml first.\n"


@pytest.mark.parametrize(
    ("page", "command"),
    [
        (fenced("llamafactory-cli train lora.yaml"), "llamafactory-cli train lora.yaml"),
        (fenced("vim lora.yaml", "tune run lora --config lora.yaml"), "tune run lora --config lora.yaml"),
        (fenced("python train.py --config=lora.yaml"), "python train.py --config=lora.yaml"),
        ("    $ nemo-train ./lora.yaml trainer.devices=1\n", "nemo-train ./lora.yaml trainer.devices=1"),
        (fenced("swift sft lora.yaml \\", "  --epochs 2"), "swift sft lora.yaml --epochs 2"),
    ],
)
def test_the_command_of_the_readme_that_reads_the_file_is_the_command(
    tmp_path: Path, typed: Typed, page: str, command: str
) -> None:
    (tmp_path / "README.md").write_text(page)
    code, printed = typed("init", "--script", "lora.yaml", *NAMES)
    assert code == 0 and f"command: {command}" in printed
    assert load_config("mine", tmp_path).config.command == tuple(command.split())


@pytest.mark.parametrize(
    "page",
    [
        "",
        "Edit lora.yaml first, then start the training.\n",
        "lora.yaml contains the settings of train.py\n",
        fenced("cat lora.yaml"),
        fenced("llamafactory-cli train other-lora.yaml"),
        fenced("llamafactory-cli train lora.yaml", "llamafactory-cli export lora.yaml"),
        fenced("llamafactory-cli train path/to/lora.yaml"),
    ],
)
def test_a_settings_file_that_no_single_command_reads_is_refused(tmp_path: Path, typed: Typed, page: str) -> None:
    (tmp_path / "README.md").write_text(page)
    code, printed = typed("init", "--script", "lora.yaml", *NAMES)
    assert code == 2 and "lora.yaml is a settings file, which python cannot run" in printed
    assert '["PROGRAM", "train", "lora.yaml"]' in " ".join(printed.split())
    assert not (tmp_path / "configs").exists()


@pytest.mark.parametrize("page", ["", fenced("llamafactory-cli train lora.yaml")])
def test_a_script_beside_the_settings_file_is_started_by_python(tmp_path: Path, typed: Typed, page: str) -> None:
    (tmp_path / "README.md").write_text(page)
    assert typed("init", "--script", "train.py", *NAMES)[0] == 0
    assert load_config("mine", tmp_path).config.command == ("python", "train.py")
