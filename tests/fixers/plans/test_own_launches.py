"""Which scripts commands start with DeepSpeed, and that the models of these scripts are not cast to float32."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.sources.launched import ONE, SEVERAL, UNKNOWN, Launched, launched_in, scripts_of
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

TRAIN = """import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def train():
    model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
    trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True))
    trainer.train()


if __name__ == "__main__":
    train()
"""
STARTS_IT = "from training.train import train\n\ntrain()\n"
SPLITS = "import tools\n\n\ndef main():\n    tools.split('a.json')\n\n\nmain()\n"
DEEPSPEED = "deepspeed training/train.py --deepspeed zero2.json\n"
DDP = "torchrun --nproc_per_node 2 training/train.py --lr 1e-4\n"
ACCELERATE = "accelerate launch --config_file cfg/zero3.yaml training/train.py\n"
BY_VARIABLE = ACCELERATE.replace("cfg/zero3.yaml", "$config")
ZERO = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"
MULTI = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"


@pytest.mark.parametrize(
    ("path", "text", "wanted"),
    [
        ("run.sh", "torchrun train.py \\\n    --deepspeed ds.json\n", [("train.py", True)]),
        ("run.sh", "python train.py --lr 1\n", [("train.py", False)]),
        ("run.sh", "# python train.py --lr 1\n", []),
        ("run.sh", "echo see train.py\n", []),
        ("run.sh", 'echo "run torchrun train.py"\n', []),
        ("run.sh", 'echo "python train.py" | sbatch\n', [("train.py", False)]),
        ("run.sh", 'ARGS="--deepspeed ds.json"\npython train.py $ARGS\n', [("train.py", True)]),
        ("run.sh", 'ARGS="--lr 1"\npython train.py $ARGS\n', [("train.py", False)]),
        ("run.sh", 'ARGS="\n  --lr 1 \\\n  --deepspeed ds.json\n"\npython train.py $ARGS\n', [("train.py", True)]),
        ("run.sh", "export ARGS='\n  --zero3\n'\npython train.py ${ARGS}\n", [("train.py", True)]),
        ("run.sh", 'ARGS="\n  --lr 1\n"\nOTHER="--zero3"\npython train.py $ARGS\n', [("train.py", False)]),
        ("run.sh", "accelerate launch --config_file cfg/zero3.yaml a/sft.py\n", [("a/sft.py", True)]),
        ("run.sh", "accelerate launch --config_file cfg/fsdp.yaml a/sft.py\n", [("a/sft.py", False)]),
        ("run.sh", "python -m pkg.train --deepspeed ds.json\n", [("pkg/train.py", True)]),
        ("run.sh", "python -m torch.distributed.run train.py\n", [("train.py", False)]),
        ("run.sh", "python -m pip install x\n", []),
        ("README.md", "```\n# then\ndeepspeed train.py\n```\n", [("train.py", True)]),
    ],
)
def test_a_start_is_one_with_deepspeed_if_its_command_says_so(path: str, text: str, wanted: list) -> None:
    assert [(each.script, each.deepspeed) for each in launched_in(path, text.encode())] == wanted


@pytest.mark.parametrize(
    ("path", "script", "found"),
    [
        ("a/run.sh", "train.py", ("a/train.py",)),
        ("a/scripts/run.sh", "train.py", ("a/train.py",)),
        ("run.sh", "train.py", ("a/train.py", "b/c/train.py")),
        ("b/d/README.md", "c/train.py", ("b/c/train.py",)),
        ("b/run.sh", "other.py", ()),
        ("run.sh", "pkg/train.py", ("pkg/train/__main__.py",)),
    ],
)
def test_a_script_is_the_nearest_file_with_its_path(path: str, script: str, found: tuple[str, ...]) -> None:
    assert (
        scripts_of(Launched(path, script, deepspeed=False), ["a/train.py", "b/c/train.py", "pkg/train/__main__.py"])
        == found
    )


@pytest.mark.parametrize("path", ["run.sh", "lib/run.sh"])
def test_a_package_that_a_command_starts_is_its_main_module(path: str) -> None:
    known = ["lib/tune/__main__.py", "lib/tune/__init__.py", "lib/tune/load.py"]
    (launched,) = launched_in(path, b"torchrun -m lib.tune --bf16\n")
    assert scripts_of(launched, known) == ("lib/tune/__main__.py",)


def _casts(root: Path, files: dict[str, str]) -> bool:
    for name, text in {"training/train.py": TRAIN, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    plan = plan_offers(Site(DiskTree(root), gpu=TITAN_RTX), only=["trainable-fp32"])
    return any(getattr(each, "path", "") == "training/train.py" for each in plan.changes)


@pytest.mark.parametrize(
    ("files", "casts"),
    [
        ({}, True),
        ({"run.sh": DEEPSPEED}, False),
        ({"README.md": f"```bash\n{DEEPSPEED}```\n"}, False),
        ({"run.sh": DDP}, True),
        ({"run.sh": DEEPSPEED, "one.sh": DDP}, True),
        ({"run.sh": DEEPSPEED.replace("train.py", "other.py"), "training/other.py": "x = 1\n"}, True),
        ({"run.sh": "deepspeed start.py\n", "start.py": STARTS_IT}, False),
        (
            {"run.sh": "deepspeed start.py\n", "start.py": STARTS_IT, "one.sh": "python all.py\n", "all.py": STARTS_IT},
            True,
        ),
        ({"run.sh": ACCELERATE, "cfg/zero3.yaml": ZERO, "cfg/ddp.yaml": MULTI}, False),
        ({"run.sh": f"config='./cfg/zero3.yaml'\n{BY_VARIABLE}", "cfg/zero3.yaml": ZERO, "cfg/ddp.yaml": MULTI}, False),
        ({"run.sh": BY_VARIABLE, "cfg/zero3.yaml": ZERO, "cfg/ddp.yaml": MULTI}, True),
        (
            {
                "run.sh": f"config=cfg/zero3.yaml\nif [ $# = 1 ]; then\n  config=cfg/ddp.yaml\nfi\n{BY_VARIABLE}",
                "cfg/zero3.yaml": ZERO,
                "cfg/ddp.yaml": MULTI,
            },
            True,
        ),
        ({"README.md": f"```\n{ACCELERATE}```\n", "cfg/zero3.yaml": ZERO}, False),
        ({"run.sh": ACCELERATE.replace("zero3", "speed"), "cfg/speed.yaml": ZERO}, False),
        (
            {
                "run.sh": f"{ACCELERATE}accelerate launch --config_file cfg/ddp.yaml other.py\n",
                "cfg/zero3.yaml": ZERO,
                "cfg/ddp.yaml": MULTI,
                "other.py": "x = 1\n",
            },
            False,
        ),
        ({"run.sh": DEEPSPEED, "cfg/ddp.yaml": MULTI}, False),
        ({"run.sh": DEEPSPEED, "e.sh": "python eval_it.py\n", "eval_it.py": STARTS_IT}, False),
        ({"run.sh": DEEPSPEED, "e.sh": "python eval/it.py\n", "eval/it.py": STARTS_IT}, False),
        ({"run.sh": DEEPSPEED, "d.sh": "python split.py\n", "split.py": SPLITS, "tools.py": STARTS_IT}, False),
        ({"run.sh": DEEPSPEED, "d.sh": "python split.py\n", "split.py": "import tools\n", "tools.py": STARTS_IT}, True),
        ({"run.sh": DEEPSPEED, "b/go.sh": "python train.py\n", "b/old/train.py": TRAIN}, False),
    ],
)
def test_a_model_that_only_deepspeed_trains_is_not_cast(tmp_path: Path, files: dict[str, str], casts: bool) -> None:
    assert _casts(tmp_path, files) is casts


def test_the_config_that_starts_the_script_itself_may_do_so_without_deepspeed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "run.sh").write_text("deepspeed train.py --deepspeed zero2.json\n")
    site = Site(DiskTree(tmp_path), gpu=TITAN_RTX, config={"command": ["python", "train.py"]})
    assert plan_offers(site, only=["trainable-fp32"]).changes


@pytest.mark.parametrize("commands", [f"{DEEPSPEED}{DDP}", f"{ACCELERATE}{DDP}"])
def test_parameters_that_zero_3_has_partitioned_are_not_cast(tmp_path: Path, commands: str) -> None:
    assert _casts(tmp_path, {"run.sh": commands})
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX), only=["trainable-fp32"])
    text = "".join(each.after.decode() for each in plan.changes if isinstance(each, FileChange))
    assert 'if parameter.requires_grad and not hasattr(parameter, "ds_id"):' in text
    assert _casts(tmp_path, {"run.sh": DDP})
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX), only=["trainable-fp32"])
    assert not any("ds_id" in each.after.decode() for each in plan.changes if isinstance(each, FileChange))


@pytest.mark.parametrize(
    ("path", "text", "machines"),
    [
        ("run.sh", "torchrun --nproc_per_node=8 train.py\n", ONE),
        ("run.sh", "torchrun --nnodes=1 --nproc_per_node=8 train.py\n", ONE),
        ("README.md", "```\naccelerate launch train.py\n```\n", ONE),
        ("run.sbatch", "#SBATCH --nodes=1\nsrun torchrun train.py\n", ONE),
        ("run.sh", "srun -p gpu -N1 python train.py\n", ONE),
        ("run.sh", "torchrun --nnodes=2 --node_rank=$R train.py\n", SEVERAL),
        ("run.sh", "torchrun --nnodes=1:4 train.py\n", SEVERAL),
        ("run.sh", 'D="--nnodes $N --nproc_per_node 8"\ntorchrun $D train.py\n', SEVERAL),
        ("run.sh", "N=$SLURM_NNODES\ntorchrun --nnodes $N train.py\n", SEVERAL),
        ("run.sh", "torchrun --nnodes ${N:-4} train.py\n", SEVERAL),
        ("run.sh", "torchrun --nnodes $1 train.py\n", SEVERAL),
        ("run.sh", 'ALL="${#HOSTS[*]}"\ntorchrun --nnodes "$ALL" train.py\n', SEVERAL),
        ("run.sh", "N=${#HOSTS[@]}\ntorchrun --nnodes=$N train.py\n", SEVERAL),
        ("run.sbatch", "#SBATCH --nodes=4\nsrun torchrun train.py\n", SEVERAL),
        ("run.sbatch", "#SBATCH -N 1-4\nsrun torchrun train.py\n", SEVERAL),
        ("README.md", "```\nNNODES=2 NODE_RANK=0 python train.py\n```\n", SEVERAL),
        ("run.sh", "torchrun --nnodes=${NODES:-1} train.py\n", UNKNOWN),
        ("run.sh", "nodes=1\nrank=0\ntorchrun --nnodes=$nodes --node_rank=$rank train.py\n", UNKNOWN),
        ("README.md", "torchrun --nnodes <number> --node_rank <rank> train.py\n", UNKNOWN),
        ("run.sh", "mpirun -np 8 python train.py\n", UNKNOWN),
        ("run.sh", "echo $SLURM_JOB_ID\ntorchrun train.py\n", UNKNOWN),
        ("run.sh", "python train.py\n", UNKNOWN),
    ],
)
def test_the_number_of_machines_is_that_of_the_command_or_of_the_scheduler(path: str, text: str, machines: int) -> None:
    assert [each.machines for each in launched_in(path, text.encode())] == [machines]
