"""`--config a,b` and `--set KEY=1,2` as combinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.records.inputs import digest
from pipeline.runs.grid import Point, combinations, split_values
from pipeline.runs.run_id import training_settings
from pipeline.runs.selection import load_points
from remote.errors import BadUsage


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1e-5", ("1e-5",)),
        ("1e-5,2e-5", ("1e-5", "2e-5")),
        ("1e-5, 2e-5", ("1e-5", "2e-5")),
        ("[q_proj,v_proj]", ("[q_proj,v_proj]",)),
        ("[q_proj,v_proj],[k_proj]", ("[q_proj,v_proj]", "[k_proj]")),
        ("{a: [1, 2], b: 3}", ("{a: [1, 2], b: 3}",)),
        ('"a,b"', ('"a,b"',)),
        ("'a,b',c", ("'a,b'", "c")),
        ('["]",2],3', ('["]",2]', "3")),
        ("it's,that's", ("it's", "that's")),
        ("", ("",)),
    ],
)
def test_values_are_separated_by_commas_outside_of_brackets_and_quotes(text: str, values: tuple[str, ...]) -> None:
    assert split_values(text) == values


def test_each_combination_is_a_run_and_what_varies_is_known(tmp_path: Path) -> None:
    overrides = ("train.seed=1,2", "train.epochs=3", "host.slurm.gres=gpu:a,b", "command=python train.py 1,2")
    fixed = overrides[1:]
    points = combinations("a,b", overrides, tmp_path)
    assert points == tuple(
        Point(config, (f"train.seed={seed}", *fixed), (f"train.seed={seed}",)) for config in "ab" for seed in (1, 2)
    )


def test_one_config_without_several_values_is_one_run(tmp_path: Path) -> None:
    assert combinations("a", ("train.seed=1",), tmp_path) == (Point("a", ("train.seed=1",)),)


def test_the_number_of_runs_is_limited_before_they_are_listed(tmp_path: Path) -> None:
    many = tuple(f"key{key}={','.join(map(str, range(100)))}" for key in range(20))
    for yes in (False, True):
        with pytest.raises(BadUsage, match="runs; "):
            combinations("a", many, tmp_path, many=yes)


def test_a_combination_that_is_typed_twice_is_one_run(tmp_path: Path) -> None:
    assert combinations("a,a", (), tmp_path) == (Point("a", ()),)


def test_a_file_whose_name_has_a_comma_is_one_config(tmp_path: Path) -> None:
    (tmp_path / "a,b.yaml").touch()
    assert [point.config for point in combinations("a,b.yaml", (), tmp_path)] == ["a,b.yaml"]
    assert [point.config for point in combinations("./c.yaml,d", (), tmp_path)] == ["./c.yaml", "d"]


def test_many_runs_need_a_confirmation(tmp_path: Path) -> None:
    overrides = (f"train.seed={','.join(map(str, range(17)))}",)
    with pytest.raises(BadUsage, match="17 runs; more than 16 need --yes"):
        combinations("a", overrides, tmp_path)
    assert len(combinations("a", overrides, tmp_path, many=True)) == 17


@pytest.mark.parametrize(("config", "override"), [("a,", "train.seed=1"), ("a", "train.seed=1,,2")])
def test_an_empty_name_or_value_is_refused(config: str, override: str, tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="empty value"):
        combinations(config, (override,), tmp_path)


@pytest.mark.parametrize("override", ["train.learning_rate=1e-4,1e-3", "lora.r=8,16"])
def test_values_that_an_own_command_does_not_read_are_refused(override: str, tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "train.py").write_text("")
    (tmp_path / "configs/mine.yaml").write_text("command: [python, train.py]\n")
    with pytest.raises(BadUsage) as caught:
        load_points("local", combinations("mine", [override], tmp_path), tmp_path)
    key = override.partition("=")[0]
    assert {(key in finding.message, f"{{{key}}}" in finding.hint) for finding in caught.value.findings} == {
        (True, True)
    }
    assert len(load_points("local", combinations("mine", ["precision=fp32,fp16-mixed"], tmp_path), tmp_path)) == 2


def test_one_value_that_an_own_command_does_not_read_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "train.py").write_text("")
    (tmp_path / "configs/mine.yaml").write_text("command: [python, train.py]\n")
    with pytest.raises(BadUsage, match=r"train\.seed is a setting of the built-in trainer"):
        load_points("local", combinations("mine", ["train.seed=2"], tmp_path), tmp_path)
    assert load_points("local", combinations("mine", ["train.max_steps=2"], tmp_path), tmp_path)


def test_an_own_script_is_swept_over_the_settings_that_its_command_names(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "train.py").write_text("")
    words = "--lr, '{train.learning_rate}', --out, '{output_dir}', '{\"r\": {lora.r}}'"
    text = f"command: [python, train.py, {words}]\n"
    (tmp_path / "configs/mine.yaml").write_text(text)
    overrides = ["train.learning_rate=1e-5,2e-3", "lora.r=8"]
    runs = [one.loaded for one in load_points("local", combinations("mine", overrides, tmp_path), tmp_path)]
    filled = [("--lr", rate, "--out", "{output_dir}", '{"r": 8}') for rate in ("1e-05", "0.002")]
    assert [run.config.command[2:] for run in runs] == filled
    assert len({digest(training_settings(run.config)) for run in runs}) == 2
    with pytest.raises(BadUsage) as caught:
        load_points("local", combinations("mine", ["lora.alpha=1,2"], tmp_path), tmp_path)
    assert {finding.message.partition(" ")[0] for finding in caught.value.findings} == {"lora.alpha"}
