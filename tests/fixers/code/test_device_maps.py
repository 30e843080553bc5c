"""device-map changes models of code that several processes run; in one process, "auto" is the card."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from fixers.sources.launched import launched_in
from tests.fixers.casebook import TITAN_RTX

TRAIN = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("base", dtype="float32", device_map="auto")
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
"""
GPTQ = TRAIN.replace('"base"', '"some/Llama-2-7b-GPTQ"')
PLACED = 'device_map={"": int(os.environ.get("LOCAL_RANK", "0"))}'
LOADS = """from transformers import AutoModelForCausalLM, Trainer


def load(name):
    return AutoModelForCausalLM.from_pretrained(name, device_map="balanced")


def fit(data):
    Trainer(model=load("base"), train_dataset=data).train()
"""


def plan(root: Path, files: dict[str, str], **config: object) -> Plan:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX, config=config), only=["device-map"])


def changed(plan: Plan) -> dict[str, str]:
    return {each.path: each.after.decode() for each in plan.changes if isinstance(each, FileChange)}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"run.sh": "python train.py --epochs 3\n"},
        {"README.md": "```\npython train.py\n```\n", "run.sh": "torchrun other.py\n", "other.py": "print()\n"},
        {"run.sh": "torchrun --nproc_per_node=1 train.py\n"},
        {"run.sh": "accelerate launch --num_processes 1 train.py\n"},
        {"run.sh": "python train.py --deepspeed zero2.json\n"},
        {"train.py": f'import os\n\nos.environ["LOCAL_RANK"] = "0"\n{TRAIN}'},
    ],
)
def test_a_model_that_one_process_trains_is_left_alone(tmp_path: Path, files: dict[str, str]) -> None:
    found = plan(tmp_path, {"train.py": TRAIN, **files})
    assert not found.changes
    assert [each.where for each in found.skipped] == ["train.py"]
    assert "several processes" in found.skipped[0].reason


@pytest.mark.parametrize(
    "files",
    [
        {"run.sh": "torchrun --nproc_per_node 8 train.py\n"},
        {"run.sh": "deepspeed --include localhost:0,1 train.py --lr 1e-4\n"},
        {"run.sh": 'START="torchrun --nproc_per_node 4"\n$START train.py\n'},
        {"README.md": "Run `accelerate launch train.py`.\n"},
        {"Makefile": "train:\n\tmpirun -np 8 python train.py\n"},
        {"run.sbatch": "srun python train.py\n"},
        {"start.py": "import train\n", "run.sh": "python -m torch.distributed.run start.py\n"},
        {"train.py": f'"""Run it with torchrun --nproc_per_node=4 train.py."""\n{TRAIN}'},
    ],
)
def test_a_model_that_a_launcher_may_train_is_placed_by_the_trainer(tmp_path: Path, files: dict[str, str]) -> None:
    assert "device_map=None" in changed(plan(tmp_path, {"train.py": TRAIN, **files}))["train.py"]


def test_a_module_of_a_script_that_a_launcher_starts_is_changed(tmp_path: Path) -> None:
    files = {"lib/models.py": LOADS, "train.py": "from lib.models import fit\n\nfit([])\n"}
    assert changed(plan(tmp_path, {**files, "run.sh": "python train.py\n"})) == {}
    assert set(changed(plan(tmp_path, {"run.sh": "torchrun train.py\n"}))) == {"lib/models.py"}


@pytest.mark.parametrize("command", ["python train.py", "bash run.sh"])
def test_the_script_of_a_config_may_be_started_on_several_cards(tmp_path: Path, command: str) -> None:
    files = {"train.py": TRAIN, "other.py": TRAIN, "run.sh": "python train.py\n"}
    assert set(changed(plan(tmp_path, files, command=command))) == {"train.py"}


@pytest.mark.parametrize("text", [GPTQ, TRAIN.replace('"base"', '"some/model-AWQ"'), f"import gptqmodel\n{TRAIN}"])
def test_a_checkpoint_of_quantised_weights_keeps_a_device_map(tmp_path: Path, text: str) -> None:
    after = changed(plan(tmp_path, {"train.py": text, "run.sh": "torchrun train.py\n"}))["train.py"]
    assert PLACED in after
    assert "device_map=None" not in after


@pytest.mark.parametrize(
    ("command", "processes"),
    [
        ("torchrun train.py", True),
        ("python -m torch.distributed.launch --nproc_per_node=2 train.py", True),
        ("srun -n 4 python train.py", True),
        ("torchrun --nproc_per_node 1 --nnodes 2 train.py", True),
        ("mpirun -np 1 python train.py", False),
        ("python tools/deepspeed/train.py", False),
        ("python train.py --launcher torchrun_off", False),
    ],
)
def test_a_launcher_starts_several_processes(command: str, processes: bool) -> None:
    assert [each.processes for each in launched_in("run.sh", f"{command}\n".encode())] == [processes]
