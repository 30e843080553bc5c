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


def test_a_command_starts_the_script_beside_it_and_no_other_of_the_same_name(tmp_path: Path) -> None:
    files = {"a/train.py": PARSED, "a/run.sh": "python train.py --bf16 True\n"}
    refused = f"{PARSED}if args.fp16:\n    raise ValueError('half')\n"
    plan = planned(tmp_path, {**files, "b/train.py": refused, "b/run.sh": "python train.py --bf16 True\n"})
    assert set(changed(plan)) == {"a/train.py", "a/run.sh"}


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


ZERO = '{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}, "fp16": {"enabled": false}}\n'
STARTED = "python ../train.py --deepspeed {}\n"
ON_NPU = STARTED.format("../a/conf/two.json --device npu")
NAMED = {
    "a path from the command's folder": {"b/run.sh": STARTED.format("../a/conf/two.json")},
    "a path from a folder above the command": {"a/scripts/run.sh": STARTED.format("conf/two.json")},
    "a path from a folder that is no folder of the project": {"b/run.sh": STARTED.format("conf/two.json")},
    "a path after a variable": {"b/run.sh": STARTED.format("${ROOT}/conf/two.json")},
    "a path in a document": {"README.md": "Use `a/conf/two.json`.\n"},
    "an absolute path": {"README.md": "Use `/home/me/speech/a/conf/two.json`.\n"},
    "a name alone": {"README.md": "Use two.json.\n"},
    "code": {"other.py": f"{ACCELERATE}load('conf/two.json')\n"},
    "a command for several devices": {
        "b/run.sh": f"device=${{1:-cuda}}\nif [ $device = npu ]; then backend=hccl; fi\n"
        f"{STARTED.format('../a/conf/two.json --device $device')}"
    },
    "a command with a comment about another device": {
        "b/run.sh": f"# or --device npu\n{STARTED.format('../a/conf/two.json')}"
    },
    "a document about several devices": {"README.md": f"```\n{ON_NPU}```\n"},
}
NOT_NAMED = {
    "a path to another folder": {"b/run.sh": STARTED.format("../c/conf/two.json")},
    "a path to another folder in a document": {"README.md": "Use `c/conf/two.json`.\n"},
    "a path to another folder after a variable": {"b/run.sh": STARTED.format("${ROOT}/c/conf/two.json")},
    "a path from the command's folder to no file": {
        "b/run.sh": STARTED.format("conf/two.json"),
        "b/conf/x.yaml": "a: 1\n",
    },
    "a path from the command's folder to a file of the same name": {
        "b/run.sh": STARTED.format("conf/two.json"),
        "b/conf/two.json": "{}\n",
    },
    "a command for an NPU": {"b/run.sh": ON_NPU},
    "a command that selects NPUs by a variable": {
        "b/run.sh": f"export ASCEND_RT_VISIBLE_DEVICES=0,1\n{STARTED.format('../a/conf/two.json')}"
    },
    "a command for a TPU": {"b/run.sh": f"PJRT_DEVICE=TPU {STARTED.format('../a/conf/two.json')}"},
}


@pytest.mark.parametrize(
    ("files", "converted"),
    [pytest.param(files, of is NAMED, id=name) for of in (NAMED, NOT_NAMED) for name, files in of.items()],
)
def test_a_config_of_deepspeed_is_converted_if_a_path_may_lead_to_it(
    tmp_path: Path, files: dict[str, str], converted: bool
) -> None:
    recipe = {"a/run.sh": STARTED.format("conf/one.json"), "a/conf/one.json": ZERO, "a/conf/two.json": ZERO}
    after = changed(planned(tmp_path, {"train.py": ACCELERATE, **recipe, **files}))
    assert "a/conf/one.json" in after
    assert ("a/conf/two.json" in after) is converted


@pytest.mark.parametrize(
    ("path", "text", "converted"),
    [
        ("b/run.sh", "python ../train.py --config ../a/conf/small.yaml\n", True),
        ("b/run.sh", "python ../train.py --config ../c/conf/small.yaml\n", False),
        ("b/run.sh", "python ../train.py --device npu --config ../a/small.yaml\n", False),
    ],
)
def test_a_config_of_the_project_is_converted_if_a_path_may_lead_to_it(
    tmp_path: Path, path: str, text: str, converted: bool
) -> None:
    script = KNOWS_HALF.replace("train.yaml", "x.yml")
    after = changed(planned(tmp_path, {"train.py": script, "a/conf/small.yaml": "dtype: bf16\n", path: text}))
    assert ("a/conf/small.yaml" in after) is converted


@pytest.mark.parametrize(
    ("command", "converted"),
    [
        ("torchrun train.py --bf16 True\n", True),
        ("torchrun train.py --bf16 True --device npu\n", False),
        ("export HABANA_VISIBLE_MODULES=0\ntorchrun train.py --bf16 True\n", False),
        ("export CUDA_VISIBLE_DEVICES=0  # ASCEND_VISIBLE_DEVICES on an NPU\ntorchrun train.py --bf16 True\n", True),
    ],
)
def test_a_command_for_another_device_is_not_changed(tmp_path: Path, command: str, converted: bool) -> None:
    after = changed(planned(tmp_path, {"train.py": PARSED, "run.sh": command}))
    assert ("run.sh" in after) is converted
