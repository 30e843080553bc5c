"""The programs to which a config belongs, and the warnings about programs that stay in bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import (
    ACCELERATE,
    DEMO,
    FSDP,
    HALF_LOOP,
    KNOWS_HALF,
    LIGHTNING,
    OF_ACCELERATE,
    PARSED,
    RAISES,
    RECIPE,
    TRAINER,
    changed,
    planned,
)

SCALED = f"from torch.amp import GradScaler\n\n{ACCELERATE}"
LINKED = {
    "by code": {"train.py": f"{SCALED}load('conf/small.yaml')\n"},
    "by its stem": {"train.py": f"{SCALED}load(config_name='small')\n"},
    "by its folder": {"train.py": f"{SCALED}paths = glob('conf/*.yaml')\n"},
    "by a command": {"train.py": SCALED, "run.sh": "python train.py --config conf/small.yaml\n"},
    "by a document": {"train.py": SCALED, "README.md": "Choose one of `small.yaml` and `large.yaml`.\n"},
    "by another config": {"train.py": f"{SCALED}load('main.yaml')\n", "main.yaml": "defaults:\n  - small\n"},
}
UNLINKED = {
    "nothing names it": {"train.py": SCALED},
    "only other code names it": {"train.py": SCALED, "demo.py": f"{DEMO}load('conf/small.yaml')\n"},
    "a longer name contains its own": {"train.py": f"{SCALED}load('too-small.yaml')\n"},
}


@pytest.mark.parametrize("files", LINKED.values(), ids=LINKED)
def test_a_config_that_something_names_is_converted(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"conf/small.yaml": "dtype: bf16\nsize: 8\n", "main.yaml": "", **files})
    assert {"train.py", "conf/small.yaml"} <= set(changed(plan))


@pytest.mark.parametrize("files", UNLINKED.values(), ids=UNLINKED)
def test_a_config_that_nothing_names_is_no_config_of_any_program(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"conf/small.yaml": "dtype: bf16\nsize: 8\n", **files})
    assert set(changed(plan)) == {"train.py"}
    assert "conf/small.yaml" in [each.where for each in plan.skipped]


def test_trainer_arguments_that_a_user_names_are_converted_if_a_program_parses_them(tmp_path: Path) -> None:
    config = {"runs/a.yaml": "output_dir: out\nbf16: true\n"}
    assert set(changed(planned(tmp_path, {"train.py": PARSED, **config}))) == {"train.py", "runs/a.yaml"}


def test_a_config_of_accelerate_belongs_to_the_programs_that_read_it(tmp_path: Path) -> None:
    other = {"other.py": RECIPE.format(refusal=RAISES), "accelerate.yaml": OF_ACCELERATE}
    assert set(changed(planned(tmp_path, {"train.py": ACCELERATE, **other}))) == {"train.py", "accelerate.yaml"}
    command = "accelerate launch --config_file accelerate.yaml train.py\n"
    reading = {"other.py": f"import accelerate\n{other['other.py']}", "run.sh": command}
    assert set(changed(planned(tmp_path, reading))) == {"train.py", "accelerate.yaml"}


@pytest.mark.parametrize(
    ("command", "stays"),
    [
        ("accelerate launch --config_file cfg/one.yaml train.py\n", True),
        ("config=./cfg/one.yaml\naccelerate launch --config_file=$config train.py\n", True),
        ("accelerate launch --config_file cfg/$1.yaml train.py\n", False),
        ("accelerate launch --config_file cfg/one.yaml train.py --data cfg/data_${name}.yaml\n", True),
        ("accelerate launch --config_file cfg/one.yaml train.py --data 'cfg/*.json'\n", True),
        ("accelerate launch --config_file cfg/one.yaml train.py --model cfg/${model:-base}_small.yaml\n", True),
        ("accelerate launch --config_file cfg/one.yaml train.py, or with cfg/t${kind}.yaml.\n", False),
        ("accelerate launch --config_file cfg/one.yaml train.py && ls cfg/{one,two}.yaml\n", False),
        ("accelerate launch --config_file cfg/one.yaml train.py && ls cfg/$(pick)\n", False),
        ("accelerate launch --config_file cfg/one.yaml train.py  # or two\n", False),
        ("accelerate launch train.py\n", False),
    ],
)
def test_a_config_of_accelerate_beside_those_that_commands_name_is_spare(
    tmp_path: Path, command: str, stays: bool
) -> None:
    configs = {"cfg/one.yaml": OF_ACCELERATE, "cfg/two.yaml": OF_ACCELERATE}
    plan = planned(tmp_path, {"train.py": ACCELERATE, "run.sh": command, **configs})
    assert set(changed(plan)) == {"train.py", "cfg/one.yaml"} | (set() if stays else {"cfg/two.yaml"})


def test_a_config_that_nothing_names_is_spare_if_others_of_the_project_are_named(tmp_path: Path) -> None:
    command = "deepspeed train.py --deepspeed conf/zero.json\n"
    zero = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}\n'
    configs = {"conf/zero.json": zero, "tools/infer.yaml": OF_ACCELERATE, "old/zero3.json": zero}
    plan = planned(tmp_path, {"train.py": ACCELERATE, "run.sh": command, **configs})
    assert set(changed(plan)) == {"train.py", "conf/zero.json"}
    (tmp_path / "run.sh").write_text("python train.py\n")
    assert set(changed(planned(tmp_path, {}))) == {"train.py", *configs}


def test_a_command_starts_the_script_beside_it_and_no_other_of_the_same_name(tmp_path: Path) -> None:
    files = {"a/train.py": PARSED, "a/run.sh": "python train.py --bf16 True\n"}
    refused = f"{PARSED}if args.fp16:\n    raise ValueError('half')\n"
    plan = planned(tmp_path, {**files, "b/train.py": refused, "b/run.sh": "python train.py --bf16 True\n"})
    assert set(changed(plan)) == {"a/train.py", "a/run.sh"}


@pytest.mark.parametrize("package", ["speech/tune", "tune"])
def test_a_command_that_starts_a_package_is_converted_with_its_main_module(tmp_path: Path, package: str) -> None:
    command = f"ARGS='\\\n  --bf16 \\\n  --lr 1e-4'\ntorchrun -m {package.replace('/', '.')} $ARGS\n"
    plan = planned(tmp_path, {f"{package}/__main__.py": PARSED, f"{package}/__init__.py": "", "run.sh": command})
    assert "--fp16" in changed(plan)["run.sh"]
    assert "run.sh" not in changed(planned(tmp_path, {"run.sh": command.replace("tune", "other")}))


def test_programs_that_stay_for_the_same_reason_share_one_warning(tmp_path: Path) -> None:
    plan = planned(tmp_path, {f"{name}.py": HALF_LOOP for name in "abcdef"})
    (left,) = [each for each in plan.findings if "stays in bfloat16" in each.message]
    assert (left.where, left.message.partition("scales the loss")[2]) == (
        "a.py",
        "; the same holds for b.py, c.py, d.py and 2 more",
    )


@pytest.mark.parametrize("path", ["run.sh", "README.md"])
def test_a_program_that_nothing_starts_is_listed_without_a_warning(tmp_path: Path, path: str) -> None:
    plan = planned(tmp_path, {"train.py": TRAINER, "old.py": HALF_LOOP, path: "python train.py\n"})
    assert not [each for each in plan.findings if "stays in bfloat16" in each.message]
    assert "old.py" in [each.where for each in plan.skipped]
    started = planned(tmp_path, {path: "python train.py\npython old.py\n"})
    assert [each.where for each in started.findings if "stays in bfloat16" in each.message] == ["old.py"]


@pytest.mark.parametrize("path", ["README.md", "run.sh"])
def test_a_config_belongs_to_the_programs_that_the_text_which_names_it_starts(tmp_path: Path, path: str) -> None:
    files = {"train.py": KNOWS_HALF, "other.py": RECIPE.format(refusal=RAISES), "conf/small.yaml": "dtype: bf16\n"}
    files = {name: text.replace("train.yaml", "x.yml") for name, text in files.items()}
    plan = planned(tmp_path, {**files, path: "python train.py --config conf/small.yaml\n"})
    assert set(changed(plan)) == {"conf/small.yaml"}
    plan = planned(tmp_path, {path: "python train.py --config conf/small.yaml\npython other.py\n"})
    assert set(changed(plan)) == set()


def test_a_config_that_stays_alone_keeps_no_program_in_bfloat16(tmp_path: Path) -> None:
    other = {"other.py": f"import accelerate\n{RECIPE.format(refusal=RAISES)}", "fsdp.yaml": FSDP}
    assert set(changed(planned(tmp_path, {"train.py": TRAINER, **other}))) == {"train.py"}


EVALUATES = (
    "accelerate launch --config_file judge/one.yaml judge/score.py --precision bf16 --settings judge/small.yaml\n"
)


@pytest.mark.parametrize("config", [("judge/one.yaml", OF_ACCELERATE), ("judge/small.yaml", "dtype: bf16\nsize: 8\n")])
@pytest.mark.parametrize("script", ["judge/score.py", "../elsewhere/score.py"])
def test_a_config_that_only_commands_without_training_name_stays(
    tmp_path: Path, config: tuple[str, str], script: str
) -> None:
    files = {"train.py": SCALED, "judge/score.py": DEMO, "judge/run.sh": EVALUATES.replace("judge/score.py", script)}
    assert set(changed(planned(tmp_path, {**files, config[0]: config[1]}))) == {"train.py"}
    training = {"judge/run.sh": EVALUATES.replace("judge/score.py", "train.py")}
    assert config[0] in changed(planned(tmp_path, training))


COMMAND = "accelerate launch --config_file {config} train.py --bf16\n"
PARSES = TRAINER.replace(
    'args = TrainingArguments("out", bf16=True)', "(args,) = HfArgumentParser(TrainingArguments)()"
)


@pytest.mark.parametrize("configs", [("fsdp.yaml",), ("fsdp.yaml", "other/fsdp.yaml")])
def test_a_program_whose_commands_name_configs_that_stay_is_left(tmp_path: Path, configs: tuple[str, ...]) -> None:
    files = {"train.py": PARSES}
    files |= {f"run{at}.sh": COMMAND.format(config=each) for at, each in enumerate(configs)}
    plan = planned(tmp_path, {**files, **dict.fromkeys(configs, FSDP)})
    assert changed(plan) == {}
    (left,) = [each for each in plan.findings if "stays in bfloat16" in each.message]
    assert (left.where, "run0.sh" in left.message) == ("train.py", True)
    plan = planned(tmp_path, {"plain.sh": "python train.py --bf16\n"})
    assert set(changed(plan)) == {"train.py", "plain.sh"}


HYDRA = """import hydra
import lightning as L


@hydra.main(config_path="conf", config_name="base")
def main(cfg):
    trainer: L.Trainer = hydra.utils.instantiate(cfg.trainer)
    trainer.fit(hydra.utils.instantiate(cfg.model))


if __name__ == "__main__":
    main()
"""
OF_LIGHTNING = "trainer:\n  _target_: lightning.pytorch.trainer.Trainer\n  precision: bf16-mixed\n"


@pytest.mark.parametrize("script", [HYDRA, LIGHTNING.replace('"bf16-mixed"', 'load("conf/base.yaml")["precision"]')])
def test_a_precision_in_the_spelling_of_lightning_is_read_by_lightning(tmp_path: Path, script: str) -> None:
    plan = planned(tmp_path, {"train.py": script, "conf/base.yaml": OF_LIGHTNING})
    assert changed(plan) == {"conf/base.yaml": OF_LIGHTNING.replace("bf16-mixed", "16-mixed")}


def test_a_precision_in_the_spelling_of_lightning_needs_a_program_with_lightning(tmp_path: Path) -> None:
    other = ACCELERATE.replace('mixed_precision="bf16"', 'mixed_precision=load("conf/base.yaml")')
    assert changed(planned(tmp_path, {"train.py": other, "conf/base.yaml": OF_LIGHTNING})) == {}


@pytest.mark.parametrize(
    ("module", "also", "converted"),
    [
        ("speech/models/net.py", {}, True),
        ("tools/server/manager.py", {}, False),
        ("tools/server/manager.py", {"conf/base.yaml": "_target_: tools.server.manager.Manager\n"}, True),
        ("tools/server/manager.py", {"speech/find.py": "PACKAGE = 'tools.server'\n"}, True),
        ("tools/server/manager.py", {"README.md": "The server is in tools/server.\n"}, False),
    ],
)
def test_a_computed_import_loads_modules_below_it_and_modules_that_a_text_names(
    tmp_path: Path, module: str, also: dict[str, str], converted: bool
) -> None:
    text = "import torch\n\n\nclass Manager:\n    def cast(self, x):\n        return x.to(torch.bfloat16)\n"
    loop = f"import hydra\nfrom speech import find\n\nnet = hydra.utils.instantiate(cfg)\n{ACCELERATE}"
    base = {"speech/train.py": loop, "speech/find.py": "", "conf/base.yaml": "size: 8\n"}
    assert (module in changed(planned(tmp_path, {**base, module: text, **also}))) is converted


def test_configs_of_equal_names_belong_to_the_program_of_their_recipe(tmp_path: Path) -> None:
    good, bad = KNOWS_HALF, RECIPE.format(refusal=RAISES)
    named = "# hparams/large.yaml\n"
    files = {
        "recipes/a/train.py": named + good,
        "recipes/b/train.py": named + bad,
        "recipes/a/hparams/large.yaml": "dtype: bf16\n",
        "recipes/b/hparams/large.yaml": "dtype: bf16\n",
    }
    assert set(changed(planned(tmp_path, files))) == {"recipes/a/hparams/large.yaml"}


def test_a_program_in_another_folder_that_names_the_whole_path_reads_the_config_too(tmp_path: Path) -> None:
    files = {
        "recipes/a/train.py": "# hparams/large.yaml\n" + KNOWS_HALF,
        "tools/train.py": "# recipes/a/hparams/large.yaml\n" + RECIPE.format(refusal=RAISES),
        "recipes/a/hparams/large.yaml": "dtype: bf16\n",
    }
    assert changed(planned(tmp_path, files)) == {}


ASSIGNED = """import lightning as L
import torch


def load(path):
    model = Speech()
    model.load_state_dict(torch.load(path), strict=False{assign})
    return model


trainer = L.Trainer(precision=read("conf/base.yaml")["precision"])
trainer.fit(load("x.pt"), loader)
"""


@pytest.mark.parametrize(
    ("assign", "precision", "converted"),
    [
        (", assign=True", "bf16-true", False),
        (", assign=True", "bf16-mixed", True),
        (", assign=False", "bf16-true", True),
        ("", "bf16-true", True),
    ],
)
def test_weights_that_keep_the_dtype_of_a_checkpoint_do_not_get_16_mixed(
    tmp_path: Path, assign: str, precision: str, converted: bool
) -> None:
    config = OF_LIGHTNING.replace("bf16-mixed", precision)
    plan = planned(tmp_path, {"train.py": ASSIGNED.format(assign=assign), "conf/base.yaml": config})
    assert (changed(plan) == {"conf/base.yaml": config.replace(precision, "16-mixed")}) is converted
    warned = [each for each in plan.findings if "train.py:7 gives its weights" in each.message]
    assert len(warned) == (not converted)
