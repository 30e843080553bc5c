"""The #SBATCH lines of a batch script as keys of `slurm:`, and `init` of a project with such a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.batch_script import slurm_keys
from pipeline.config.load import load_config

TRAIN = "trainer = Trainer(model)\nif __name__ == '__main__':\n    trainer.train()\n"
SCRIPT = """#!/bin/bash
#SBATCH --job-name=asr
#SBATCH -p gpu   # the queue
#SBATCH --gres=gpu:a100:2 --time=1-12:00:00

#SBATCH --ntasks=1
#SBATCH --mem 64G -c8
module load cuda
#SBATCH --account=late
srun python train.py
"""


def test_the_options_before_the_first_command_are_keys_of_slurm() -> None:
    assert slurm_keys(SCRIPT.encode()) == {
        "partition": "gpu",
        "gres": "gpu:a100:2",
        "time": "1-12:00:00",
        "mem": "64G",
        "cpus": 8,
    }


@pytest.mark.parametrize(
    "line",
    [
        "##SBATCH --time=1",
        "# SBATCH --time=1",
        "#SBATCH",
        "#SBATCH --time",
        "#SBATCH --time=",
        "#SBATCH --cpus-per-task=many",
        "#SBATCH --partition='gpu, mem: 1'",
        "#SBATCH 'unclosed",
        f"#SBATCH --time={'9' * 500}",
        "#SBATCH --nodes=2 --output=x.log --array=1-3",
        "echo\n#SBATCH --time=1",
        "#SBATCH --account=\xff\x00",
    ],
)
def test_other_lines_and_values_are_left_out(line: str) -> None:
    assert slurm_keys(line.encode("latin-1")) == {}


@pytest.mark.parametrize("named", [(), ("--script", "train.slurm")])
def test_init_starts_a_batch_script_with_bash_and_keeps_what_it_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], named: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "train.slurm").write_text(SCRIPT)
    (tmp_path / "README.md").write_text("```\nsbatch train.slurm\n```\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["init", "--host", "local", "--config", "mine", "--yes", *named]) == 0
    assert "write `scheduler: slurm` into" in " ".join(capsys.readouterr().out.split())
    config = load_config("mine", tmp_path).config
    assert config.command == ("bash", "train.slurm")
    assert config.slurm is not None and (config.slurm.partition, config.slurm.cpus) == ("gpu", 8)


@pytest.mark.parametrize(("line", "value"), [("-p 3090", "3090"), ("-A 123456", "123456"), ("--mem=4000", 4000)])
def test_a_name_may_be_a_number(line: str, value: str | int) -> None:
    assert list(slurm_keys(f"#SBATCH {line}".encode()).values()) == [value]


def test_init_writes_a_config_with_characters_beyond_the_basic_plane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train\U0001f642.sh").write_text("#SBATCH -C \U0001f642\\ud83d\npython train.py\n")
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["init", "--host", "local", "--config", "mine", "--yes", "--script", "train\U0001f642.sh"]) == 0
    config = load_config("mine", tmp_path).config
    assert config.command == ("bash", "train\U0001f642.sh")
    assert config.slurm is not None and config.slurm.constraint == "\U0001f642ud83d"


def test_init_of_a_large_script_requests_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.sh").write_bytes(b"#SBATCH -p gpu\n" + b"#" * (17 * 2**20))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["init", "--host", "local", "--config", "mine", "--yes", "--script", "train.sh"]) == 0


def test_init_of_a_shell_script_without_such_lines_requests_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "run.sh").write_text("python train.py\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run(["init", "--host", "local", "--config", "mine", "--yes"]) == 0
    assert "slurm" not in (tmp_path / "configs/mine.yaml").read_text()
