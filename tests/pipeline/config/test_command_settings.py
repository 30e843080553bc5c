"""Settings in a command, and the script or config that the user probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.config.load import load_config
from remote.errors import BadUsage
from tests.pipeline.config.config_files import problems, write


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("{train.learnin_rate}", "there is no setting train.learnin_rate; did you mean {train.learning_rate}?"),
        ("{lora.zzz}", "there is no setting lora.zzz; the keys are r, alpha"),
        ("{lora.targets}", "{lora.targets} needs a single value"),
        ("--max={train.max_steps}", "{train.max_steps} needs a single value"),
        ("--data={data.path}/train.json", "there is no placeholder {data.path}; did you mean {data_dir}?"),
        ("{datadir}", "there is no placeholder {datadir}; did you mean {data_dir}?"),
        ("--out={OUTPUT-DIR}/x", "there is no placeholder {OUTPUT-DIR}; did you mean {output_dir}?"),
        ("{trian.learning_rate}", "there is no placeholder {trian.learning_rate}; did you mean {train.learning_rate}?"),
        ("{model.id}", "there is no placeholder {model.id}; the placeholders are {output_dir}, "),
        ("{data_dir}", "{data_dir} needs data.path, which is not set"),
    ],
)
def test_a_setting_in_a_command_must_exist_and_have_one_value(tmp_path: Path, word: str, words: str) -> None:
    write(tmp_path, f"command: [look, '{word}']\n")
    (found,) = problems(tmp_path)
    assert words in found.message and found.where.endswith("mine.yaml:1")


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{train.seed}", "42"),
        ("--scheduler={train.scheduler}", "--scheduler=cosine"),
        ("{train.evaluate}", "true"),
        ("{lora.r}x{lora.alpha}", "64x128"),
        ("{train}", "{train}"),
        ("${train.seed}", "${train.seed}"),
        ("hydra.run.dir=runs/${model.name}", "hydra.run.dir=runs/${model.name}"),
        ("{}", "{}"),
        ('{"data.path": 1}', '{"data.path": 1}'),
        ("{instruction} {output} {epoch:02d}", "{instruction} {output} {epoch:02d}"),
        ("--name={{data.path}}-{run_name}-{val.loss}", "--name={{data.path}}-{run_name}-{val.loss}"),
        ("{output_dir}", "{output_dir}"),
    ],
)
def test_settings_in_a_command_are_filled_in_and_other_braces_are_kept(tmp_path: Path, word: str, filled: str) -> None:
    write(tmp_path, f"command: [look, '{word}']\n")
    assert load_config("mine", tmp_path).config.command == ("look", filled)


def test_braces_in_python_code_are_no_placeholders(tmp_path: Path) -> None:
    code = "print(f'{data.path}')"
    write(tmp_path, f'command: [python3, -c, "{code}"]\n')
    assert load_config("mine", tmp_path).config.command == ("python3", "-c", code)
    write(tmp_path, f'command: [bash, -c, "{code}"]\n')
    assert "did you mean {data_dir}?" in problems(tmp_path)[0].message


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("trian.py", "train.py"),
        ("src/trian_lora.py", "src/train_lora.py"),
        ("train_lora.py", "src/train_lora.py"),
        ("source/train_lora.py", "src/train_lora.py"),
        ("train.sh", ""),
        ("evaluate.py", ""),
    ],
)
def test_the_probably_meant_script_is_named(tmp_path: Path, typed: str, meant: str) -> None:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "train.txt", "src/train_lora.py"):
        (tmp_path / name).write_text("")
    write(tmp_path, f"command: [python, {typed}]\n")
    (found,) = problems(tmp_path)
    assert found.message.partition("; did you mean ")[2] == (f"{meant}?" if meant else "")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("configs/mnie.yaml", "configs/mine.yaml"),
        ("configs/mine.yml", "configs/mine.yaml"),
        ("other/mine.yaml", "mine"),
    ],
)
def test_the_probably_meant_config_is_named_for_a_path_too(tmp_path: Path, typed: str, meant: str) -> None:
    write(tmp_path, "command: [look]\n")
    with pytest.raises(BadUsage) as caught:
        load_config(typed, tmp_path)
    assert caught.value.instead == (typed, meant)
