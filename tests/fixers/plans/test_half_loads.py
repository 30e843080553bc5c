"""Models that one file of a program loads in float16 after the plan, and another file trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned
from tests.fixers.plans.project_plan import warned

TRAINS_LOADED = """import torch
from loading import get_model
from training import SpeechTrainer
from transformers import HfArgumentParser, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = get_model(args)
trainer = SpeechTrainer(model=model, args=args)
trainer.train()
"""
OWN_TRAINER = """from transformers import Trainer


class SpeechTrainer(Trainer):
    def compute_loss(self, model, inputs):
        return model(**inputs).loss
"""
LOADING = """from transformers import AutoModelForCausalLM


def get_model(args):
    model = AutoModelForCausalLM.from_pretrained("base")
    return model{more}
"""
PINNED = {
    "requirements.txt": "transformers==5.1.0\n",
    "training.py": OWN_TRAINER,
    "run.sh": "python train.py --bf16 True\n",
}
UNNAMED = TRAINS_LOADED.replace("model = get_model(args)\n", "").replace("=model", "=get_model(args)")
OF_CLASS = """from loading import get_model
from training import SpeechTrainer
from transformers import HfArgumentParser, TrainingArguments


class Runner:
    def __init__(self, args):
        self.model = get_model(args)
        SpeechTrainer(model=self.model, args=args).train()


Runner(*HfArgumentParser(TrainingArguments).parse_args_into_dataclasses())
"""
LORA = "\n\n\ndef adapted(args):\n    return get_peft_model(get_model(args), LoraConfig())"
CAST = """def prepare(model):
    for parameter in model.parameters():
        parameter.data = parameter.data.float()
"""


@pytest.mark.parametrize(("train", "owner"), [(TRAINS_LOADED, "model"), (OF_CLASS, "self.model")])
def test_weights_that_another_file_loads_after_the_plan_in_float16_are_cast_in_one_pass(
    tmp_path: Path, train: str, owner: str
) -> None:
    after = changed(planned(tmp_path, {**PINNED, "train.py": train, "loading.py": LOADING.format(more="")}))
    assert 'from_pretrained("base", dtype="float16")' in after["loading.py"]
    assert f"for parameter in {owner}.parameters():" in after["train.py"]
    assert "--fp16 True" in after["run.sh"]


def test_a_program_stays_if_the_weights_that_another_file_loads_cannot_be_cast(tmp_path: Path) -> None:
    plan = planned(tmp_path, {**PINNED, "train.py": UNNAMED, "loading.py": LOADING.format(more="")})
    assert changed(plan) == {}
    assert "the weights that loading.py loads would be trained in float16" in warned(plan)


BUILDING = """from transformers import AutoModelForCausalLM


def get_model(args):
    return AutoModelForCausalLM.from_pretrained("base", dtype="auto")
"""


@pytest.mark.parametrize(("near", "is_cast"), [(False, True), (True, False)], ids=["one module", "a nearer module"])
def test_only_the_trainer_of_the_module_that_loads_in_float16_casts(tmp_path: Path, near: bool, is_cast: bool) -> None:
    other = {"a/loading.py": "import torch\n\n\ndef get_model(args):\n    return torch.nn.Linear(2, 2)\n"}
    files = {"b/loading.py": BUILDING, "b/train.py": TRAINS_LOADED, "b/training.py": OWN_TRAINER}
    files |= {"a/train.py": TRAINS_LOADED, "a/training.py": OWN_TRAINER} | (
        other if near else {"a/loading.py": BUILDING}
    )
    files["run.sh"] = "python a/train.py --bf16 True\npython b/train.py --bf16 True\n"
    after = changed(planned(tmp_path, {**PINNED, **files}))
    assert ".data.float()" in after["b/train.py"]
    assert ("a/train.py" in after) is is_cast


@pytest.mark.parametrize(
    "files",
    [
        {"loading.py": LOADING.format(more=LORA)},
        {"loading.py": LOADING.format(more=".eval()")},
        {"loading.py": LOADING.format(more=".requires_grad_(False)")},
        {"loading.py": LOADING.format(more=""), "training.py": OWN_TRAINER + "\n\n" + CAST},
        {"loading.py": LOADING.format(more=""), "run.sh": "deepspeed train.py --bf16 True\n"},
    ],
    ids=["adapters", "evaluation", "frozen", "a cast of its own", "DeepSpeed"],
)
def test_a_load_without_a_dtype_becomes_float16_in_one_pass(tmp_path: Path, files: dict[str, str]) -> None:
    after = changed(planned(tmp_path, {**PINNED, "train.py": TRAINS_LOADED, **files}))
    assert 'from_pretrained("base", dtype="float16")' in after["loading.py"]
    assert "--fp16 True" in after["run.sh"]


def test_a_load_in_the_file_of_its_trainer_is_cast_there(tmp_path: Path) -> None:
    train = LOADING.format(more="") + "\n\n" + TRAINS_LOADED.replace("from loading import get_model\n", "")
    after = changed(planned(tmp_path, {**PINNED, "train.py": train}))["train.py"]
    assert 'dtype="float16"' in after and "parameter.data.float()" in after
