"""What stays because of what the project's other files do with a name, or say about the machines that they start."""

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.project_plan import planned

POLICIES = """import torch
from torch.distributed.fsdp import MixedPrecision

narrow = MixedPrecision(
    param_dtype=torch.bfloat16,
    # gradients
    reduce_dtype=torch.bfloat16,
)
"""
CHECKED = """import torch
from policies import *

supported = (
    torch.version.cuda
    and torch.cuda.is_bf16_supported()
)


def select(cfg):
    ready = supported
    if ready and not cfg.use_fp16:
        return narrow
    return None
"""
CHOSEN = "from policies import narrow\n\n\ndef select(cfg):\n    return narrow if cfg.mixed else None\n"
RENAMED = "from policies import narrow as policy\n\nwrap(policy)\n"
FINDS = 'import policies\n\nwrap(getattr(policies, "narrow"))\n'
RANKED = "import torch\nimport torch.distributed as dist\n\nrank = dist.get_rank()\ntorch.cuda.set_device(rank)\n"
SCALED = """import torch
from dataclasses import dataclass


@dataclass
class Params:
    float_dtype: torch.dtype = torch.float16


class Loop:
    def __init__(self, params: Params):
        self.params = params
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, x):
        with torch.autocast("cuda", dtype=self.params.float_dtype):
            loss = self.model(x)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""
GIVES = "import torch\nfrom loop import Loop, Params\n\n"
GATED = 'GradScaler("cuda", enabled=self.params.float_dtype == torch.float16)'


def changed(root: Path, files: dict[str, str]) -> dict[str, str]:
    plan = planned(root, files)
    return {each.path: each.after.decode() for each in plan.changes if isinstance(each, FileChange)}


@pytest.mark.parametrize("use", [CHECKED, "from policies import *\n", ""])
def test_a_policy_that_no_code_selects_on_this_card_stays(tmp_path: Path, use: str) -> None:
    assert "policies.py" not in changed(tmp_path, {"policies.py": POLICIES, "select.py": use})


@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("choose.py", CHOSEN),
        ("choose.py", RENAMED),
        ("choose.py", FINDS),
        ("choose.py", CHECKED + "\n\nwrap(narrow)\n"),
        ("conf/train.yaml", "policy: policies.narrow\n"),
    ],
)
def test_a_policy_that_may_be_selected_becomes_float16(tmp_path: Path, path: str, use: str) -> None:
    after = changed(tmp_path, {"policies.py": POLICIES, path: use})["policies.py"]
    assert after == POLICIES.replace("param_dtype=torch.bfloat16", "param_dtype=torch.float16").replace(
        "reduce_dtype=torch.bfloat16", "reduce_dtype=torch.float32"
    )


@pytest.mark.parametrize("other", ["choose.py", "choose.ipynb"])
def test_a_policy_that_another_file_begins_to_select_is_planned_again(tmp_path: Path, other: str) -> None:
    assert "policies.py" not in changed(tmp_path, {"policies.py": POLICIES, other: "\n"})
    assert "policies.py" in changed(tmp_path, {other: CHOSEN})


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nnodes=1 --nproc_per_node=4 train.py\n",
        "torchrun --standalone --nproc_per_node 4 train.py\n",
        "torchrun --nnodes 1 --node_rank 0 train.py\n",
        "accelerate launch --num_machines 1 train.py\n",
        "torchrun --nproc_per_node=4 train.py\n",
        "python -m torch.distributed.launch --nproc_per_node=4 train.py\n",
    ],
)
def test_rank_selects_the_card_where_commands_start_one_machine(tmp_path: Path, command: str) -> None:
    assert changed(tmp_path, {"train.py": RANKED, "run.sh": command}) == {}


@pytest.mark.parametrize(
    "files",
    [
        {"run.sh": 'ARGS="--nnodes $N --nproc_per_node 4"\ntorchrun $ARGS train.py\n'},
        {"one.sh": "torchrun --nproc_per_node=4 train.py\n", "two.sh": "srun python train.py\n"},
        {"run.sh": "torchrun --nnodes=$NNODES train.py\n"},
        {"run.sh": "torchrun --nnodes=1:4 train.py\n"},
        {"run.sh": "torchrun --nnodes=12 train.py\n"},
        {"README.md": "```\ntorchrun --nnodes=2 --node_rank=0 train.py\n```\n"},
        {"one.sh": "torchrun --nnodes=1 train.py\n", "two.sh": "torchrun --nnodes 2 --node_rank $1 train.py\n"},
        {"one.sh": "torchrun --nnodes=1 train.py\n", "two.sh": "srun python train.py\n"},
        {"run.sh": "torchrun --nnodes=2 start.py\n", "start.py": "import train\n"},
    ],
)
def test_local_rank_selects_the_card_where_several_machines_may_run(tmp_path: Path, files: dict[str, str]) -> None:
    after = changed(tmp_path, {"train.py": RANKED, **files})["train.py"]
    assert 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))' in after


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"run.sh": "python train.py\n"},
        {"run.sh": "torchrun --nnodes=${NNODES:-1} train.py\n"},
        {"run.sh": "NNODES=1\ntorchrun --nnodes=$NNODES train.py\n"},
        {"two.sh": "torchrun --nnodes 2 other.py\n", "other.py": "print()\n"},
        {"launcher.py": "import os\n\nrun(f\"torchrun --nnodes {os.environ['NNODES']} train.py\")\n"},
    ],
)
def test_the_user_decides_about_rank_where_no_command_starts_the_code_on_several_machines(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plan = planned(tmp_path, {"train.py": RANKED, **files})
    assert not plan.changes
    assert [(each.check, each.where) for each in plan.findings] == [("local-rank", "train.py:5")]


@pytest.mark.parametrize("command", ["python train.py", "bash run.sh"])
def test_local_rank_selects_the_card_in_the_script_of_a_config(tmp_path: Path, command: str) -> None:
    planned(tmp_path, {"train.py": RANKED, "other.py": RANKED, "run.sh": "python train.py\n"})
    plan = plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX, config={"command": command}))
    assert [each.path for each in plan.changes if isinstance(each, FileChange)] == ["train.py"]


@pytest.mark.parametrize(
    "given",
    [
        "Loop(Params())\n",
        'dtype = torch.float16 if device.type != "cpu" else torch.bfloat16\nLoop(Params(float_dtype=torch.half))\n',
        'Loop(Params(float_dtype=torch.bfloat16 if device == "cpu" else torch.float16))\n',
    ],
)
def test_a_scaler_is_unchanged_if_every_dtype_on_a_card_is_float16(tmp_path: Path, given: str) -> None:
    assert changed(tmp_path, {"loop.py": SCALED, "train.py": GIVES + given}) == {}


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("train.py", GIVES + "Loop(Params(float_dtype=getattr(torch, name)))\n"),
        ("train.py", GIVES + "Loop(Params(float_dtype=torch.float32))\n"),
        ("train.py", GIVES + "Loop(Params(float_dtype=torch.float16 if args.half else torch.float32))\n"),
        ("train.py", GIVES + 'params = Params()\nsetattr(params, "float_dtype", dtype)\nLoop(params)\n'),
        ("conf/train.yaml", "float_dtype: float32\n"),
    ],
)
def test_a_scaler_depends_on_the_dtype_if_the_project_may_choose_another_one(
    tmp_path: Path, path: str, given: str
) -> None:
    assert GATED in changed(tmp_path, {"loop.py": SCALED, path: given})["loop.py"]
