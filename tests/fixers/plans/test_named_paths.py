"""A config belongs to the programs whose commands, code or documents name a path that may lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import (
    ACCELERATE,
    KNOWS_HALF,
    PARSED,
    changed,
    planned,
)

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
