"""A training program gets every change of its precision, or none: none where float16 is not proved to work in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers
from tests.fixers.plans.program_files import (
    ACCELERATE,
    ASSERTS,
    CONFIG,
    DEMO,
    FSDP,
    HALF_LOOP,
    KNOWS_HALF,
    LAUNCH,
    LIGHTNING,
    LOOP,
    OF_ACCELERATE,
    PARSED,
    RAISES,
    RECIPE,
    SHARED,
    TRAINER,
    TRL,
    UNNAMED,
    WRITTEN,
    changed,
    notebook,
    planned,
    with_output,
    with_text,
)

PROVED = {
    "Trainer": ({"train.py": TRAINER}, {"train.py"}),
    "TRL": ({"train.py": TRL}, {"train.py"}),
    "Lightning": ({"train.py": LIGHTNING}, {"train.py"}),
    "Accelerate": ({"train.py": ACCELERATE}, {"train.py"}),
    "plain loop": ({"train.py": LOOP}, {"train.py"}),
    "options and a config": (
        {"train.py": PARSED, "run.sh": LAUNCH, "train.yaml": WRITTEN},
        {"train.py", "run.sh", "train.yaml"},
    ),
    "a module that it imports": (
        {"train.py": f"import shared\n{ACCELERATE}", "shared.py": SHARED},
        {"train.py", "shared.py"},
    ),
    "a notebook": ({"train.ipynb": notebook("L.Trainer(precision='bf16-mixed').fit(model)")}, {"train.ipynb"}),
    "a table that has float16": ({"train.py": KNOWS_HALF, "train.yaml": CONFIG}, {"train.yaml"}),
}


@pytest.mark.parametrize(("files", "converted"), PROVED.values(), ids=PROVED)
def test_a_program_that_is_proved_is_converted_fully_and_restored_exactly(
    tmp_path: Path, files: dict[str, str], converted: set[str]
) -> None:
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == converted
    assert not [path for path, text in changed(plan).items() if "bf16" in text or "bfloat16" in text]
    assert not [each for each in plan.findings if "stays in bfloat16" in each.message]
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()
    undo_on_disk(tmp_path)
    assert {path: (tmp_path / path).read_text() for path in files} == files


PASSED = {
    "that both are not selected": "assert not (args.bf16 and args.fp16), 'choose one'\n",
    "that one of them is selected": "if args.precision not in ('fp16', 'bf16'):\n    raise ValueError\n",
}


@pytest.mark.parametrize("line", PASSED.values(), ids=PASSED)
def test_a_program_that_checks_something_that_float16_passes_is_converted(tmp_path: Path, line: str) -> None:
    plan = planned(tmp_path, {"train.py": f"{ACCELERATE}{line}"})
    assert set(changed(plan)) == {"train.py"}


DOUBTED = {
    "a line that raises": (
        {"train.py": RECIPE.format(refusal=RAISES), "train.yaml": CONFIG},
        "train.py:10 raises an error for float16",
    ),
    "an assertion": (
        {"train.py": RECIPE.format(refusal=ASSERTS), "train.yaml": CONFIG},
        "train.py:10 raises an error for float16",
    ),
    "a config that nothing is known to read": (
        {"train.py": LIGHTNING.replace('"bf16-mixed"', 'load("train.yaml")["precision"]'), "train.yaml": CONFIG},
        "no code in it is known to read float16 from train.yaml",
    ),
    "a loop without a loss scale": ({"train.py": HALF_LOOP}, "nothing in it scales the loss"),
    "weights of another file that no line can cast": (
        {"train.py": UNNAMED, "build.py": TRAINER.partition("args =")[0].replace("flash_attention_2", "sdpa")},
        "weights that it trains may be float16",
    ),
    "a config that another program reads": (
        {
            "train.py": ACCELERATE,
            "other.py": f"import accelerate\n{RECIPE.format(refusal=RAISES)}",
            "accelerate.yaml": OF_ACCELERATE,
        },
        "shares accelerate.yaml with other.py",
    ),
    "a module that another program imports": (
        {
            "train.py": f"import shared\n{ACCELERATE}",
            "shared.py": SHARED,
            "other.py": f"import shared\n{RECIPE.format(refusal=RAISES)}",
        },
        "shares shared.py with other.py",
    ),
}


@pytest.mark.parametrize(("files", "reason"), DOUBTED.values(), ids=DOUBTED)
def test_a_program_that_is_not_proved_stays_whole_with_one_warning(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    warnings = [each for each in plan.findings if "stays in bfloat16" in each.message and reason in each.message]
    assert [each.where for each in warnings] == ["train.py"]
    assert plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes


NOT_TRAINING = {
    "a demo": {"demo.py": DEMO},
    "a notebook that does not train": {"demo.ipynb": notebook("import torch\\nx = torch.bfloat16")},
    "a notebook whose output names a trainer": {"demo.ipynb": with_output(DEMO, "Trainer(model=model)\n")},
    "a notebook with text about training": {"demo.ipynb": with_text(DEMO, "Call loss.backward() or .fit(data).")},
    "a script that is gone": {"old.sh": "torchrun gone/train_mem.py --bf16 True\n"},
    "a command that starts a demo": {"eval.sh": "python demo.py --bf16 True\n", "demo.py": DEMO},
    "a module that nothing imports": {"helper.py": SHARED},
}


@pytest.mark.parametrize("files", NOT_TRAINING.values(), ids=NOT_TRAINING)
def test_what_no_training_runs_stays_and_is_listed(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"train.py": TRAINER, **files})
    assert set(changed(plan)) == {"train.py"}
    assert set(files) <= {each.where.partition(":")[0] for each in plan.skipped}
    assert not [each for each in plan.findings if "stays in bfloat16" in each.message]


def test_a_module_that_a_notebook_trains_with_is_converted(tmp_path: Path) -> None:
    code = f"from build import DTYPE\n{TRAINER}"
    files = {"train.ipynb": with_output(code, "done"), "build.py": SHARED, "other.py": SHARED}
    assert set(changed(planned(tmp_path, files))) == {"train.ipynb", "build.py"}


UNSUITED = {
    "of Accelerate": {"fsdp.yaml": FSDP},
    "of Accelerate, beside a command": {"configs/fsdp.yaml": FSDP, "run.sh": LAUNCH},
}


@pytest.mark.parametrize("files", UNSUITED.values(), ids=UNSUITED)
def test_a_config_that_cannot_select_float16_stays_alone(tmp_path: Path, files: dict[str, str]) -> None:
    plan = planned(tmp_path, {"train.py": TRAINER, "accelerate.yaml": OF_ACCELERATE, **files})
    (config,) = (path for path in files if path.endswith(".yaml"))
    assert set(changed(plan)) == {"train.py", "accelerate.yaml", *files} - {config}
    assert config in {each.where.partition(":")[0] for each in plan.findings}


def test_commands_that_name_a_config_which_stays_are_not_changed(tmp_path: Path) -> None:
    ddp = f"accelerate launch --config_file configs/ddp.yaml {LAUNCH.partition(' ')[2]}"
    fsdp = ddp.replace("ddp", "fsdp")
    adapted = "from peft import LoraConfig, get_peft_model\n\nmodel = get_peft_model(model, LoraConfig())\ntrainer = "
    script = PARSED.replace("trainer = ", adapted)
    files = {"train.py": script, "configs/fsdp.yaml": FSDP, "configs/ddp.yaml": OF_ACCELERATE}
    files["requirements.txt"] = "peft==0.11.1\n"
    plan = planned(tmp_path, {**files, "ddp.sh": ddp, "fsdp.sh": fsdp, "train.yaml": WRITTEN})
    assert set(changed(plan)) == {"train.py", "train.yaml", "configs/ddp.yaml", "ddp.sh"}
    assert ("fsdp.sh", "commands with a config that stays in bfloat16") in {(e.where, e.reason) for e in plan.skipped}


EVALUATED = {
    "of an evaluation": {"eval/configs/judge.yaml": "model: base\ntorch_dtype: bfloat16\n"},
    "of a filter": {"recipes/dataset_filtering/rate.yaml": "torch_dtype: bfloat16\nbatch: 4\n"},
}


@pytest.mark.parametrize("files", EVALUATED.values(), ids=EVALUATED)
def test_a_config_in_a_folder_of_evaluation_stays_unless_it_has_a_key_of_a_training(
    tmp_path: Path, files: dict[str, str]
) -> None:
    ((path, text),) = files.items()
    plan = planned(tmp_path, {"train.py": TRAINER, "README.md": f"Configs: {path}\n", **files})
    assert set(changed(plan)) == {"train.py"}
    plan = planned(tmp_path, {path: f"{text}learning_rate: 1e-4\n"})
    assert set(changed(plan)) == {"train.py", path}


def test_a_module_that_may_be_loaded_by_its_name_is_part_of_the_program(tmp_path: Path) -> None:
    loads = f"import importlib\n{ACCELERATE}module = importlib.import_module(name)\n"
    plan = planned(tmp_path, {"train.py": loads, "nets/small.py": SHARED})
    assert set(changed(plan)) == {"train.py", "nets/small.py"}


def test_other_changes_of_a_program_that_stays_are_made(tmp_path: Path) -> None:
    recipe = RECIPE.format(refusal=RAISES).replace(
        "self.dtype = ", "self.compute = torch.bfloat16\n        self.dtype = "
    )
    rank = "import os\n" + recipe + "torch.cuda.set_device(int(os.environ['RANK']))\n"
    plan = planned(tmp_path, {"train.py": rank, "run.sh": "torchrun --nnodes 2 train.py\n"})
    assert [set(each.fixers) for each in plan.changes if isinstance(each, FileChange)] == [{"local-rank"}]


@pytest.mark.parametrize("command", ["python train.py --epochs 3", "bash run.sh", "python -m train"])
def test_a_program_that_a_run_starts_is_converted_because_verify_runs_it(tmp_path: Path, command: str) -> None:
    files = {"train.py": HALF_LOOP, "run.sh": "python train.py --bf16\n", "other.py": HALF_LOOP}
    assert changed(planned(tmp_path, files)) == {}
    plan = plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX, config={"command": command}))
    assert set(changed(plan)) == {"train.py", "run.sh"}
    assert not [each for each in plan.findings if "stays in bfloat16" in each.message]
    assert "other.py" in [each.where for each in plan.skipped]


OWN_TRAINER = """import torch
from {module} import Speech{more}


class {name}:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())

    def train(self, loader):
        for batch in loader:
            loss = self.model(batch).mean()
            {backward}
            self.optimizer.step()


Trainer = {name}
trainer = Trainer(Speech())
trainer.train(loader)
"""
AUTOCASTS = """import torch


class Speech(torch.nn.Linear):
    @torch.autocast("cuda", dtype=torch.bfloat16)
    def forward(self, batch):
        return super().forward(batch)
"""


@pytest.mark.parametrize(
    ("name", "backward"), [("Trainer", "loss.backward()"), ("SpeechTrainer", "(loss / 2).backward()")]
)
@pytest.mark.parametrize("module", ["speech", "models.speech"])
def test_a_trainer_of_the_project_that_scales_no_loss_stays(
    tmp_path: Path, module: str, name: str, backward: str
) -> None:
    train = OWN_TRAINER.format(module=module, more="", name=name, backward=backward)
    plan = planned(tmp_path, {"train.py": train, f"{module.replace('.', '/')}.py": AUTOCASTS})
    assert changed(plan) == {}
    assert any("nothing in it scales the loss" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("more", "backward"),
    [
        ("", "scaler.scale(loss).backward()"),
        ("", "self.fabric.backward(loss)"),
        ("\nfrom transformers import Trainer as Base", "loss.backward()"),
        ("\nimport deepspeed", "loss.backward()"),
    ],
    ids=["a scaler", "Fabric", "a trainer of a library", "DeepSpeed"],
)
def test_a_trainer_of_the_project_whose_loss_may_be_scaled_is_converted(
    tmp_path: Path, more: str, backward: str
) -> None:
    train = OWN_TRAINER.format(module="speech", more=more, name="Own", backward=backward)
    assert "speech.py" in changed(planned(tmp_path, {"train.py": train, "speech.py": AUTOCASTS}))
