"""A program that reaches the load of a model which overflows in float16 keeps bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.plans.overflowing_models import FAMILIES
from tests.fixers.plans.program_files import ACCELERATE, changed, planned

TEXT = """import torch
from transformers import {name}


def load_text():
    return {load}
"""
USES = f"from text import load_text\n{ACCELERATE}\ncaptions = load_text()\n"
FLAN = 'T5EncoderModel.from_pretrained("google/flan-t5-large")'


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("T5EncoderModel", FLAN),
        ("T5ForConditionalGeneration", "T5ForConditionalGeneration.from_pretrained(name, config=config)"),
        ("T5Config, T5Model", "T5Model(T5Config()).to(torch.bfloat16)"),
        ("AutoModelForSeq2SeqLM", 'AutoModelForSeq2SeqLM.from_pretrained(\n        "google/umt5-xxl"\n    )'),
        ("AutoModel", 'AutoModel.from_pretrained("google/flan-ul2", dtype=torch.bfloat16)'),
        ("AutoModelForCausalLM", 'AutoModelForCausalLM.from_pretrained("google/gemma-3-4b-it")'),
    ],
)
def test_a_program_that_loads_a_model_which_overflows_stays(tmp_path: Path, name: str, load: str) -> None:
    plan = planned(tmp_path, {"train.py": USES, "text.py": TEXT.format(name=name, load=load)})
    assert changed(plan) == {}
    (found,) = [each for each in plan.findings if "stays in bfloat16" in each.message]
    assert "text.py:" in found.message
    assert "overflow in float16" in found.message


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("SpeechT5ForTextToSpeech", 'SpeechT5ForTextToSpeech.from_pretrained("microsoft/speecht5_tts")'),
        ("T5Tokenizer", 'T5Tokenizer.from_pretrained("google/flan-t5-large")'),
        ("AutoTokenizer", 'AutoTokenizer.from_pretrained("google/flan-t5-large")'),
        ("T5ForConditionalGeneration", "isinstance(model, T5ForConditionalGeneration)"),
        ("AutoModel", 'AutoModel.from_pretrained("some/gemma-2b")'),
        ("T5Model", f'"""As {FLAN}."""'),
    ],
)
def test_other_models_and_tokenizers_do_not_overflow(tmp_path: Path, name: str, load: str) -> None:
    found = changed(planned(tmp_path, {"train.py": USES, "text.py": TEXT.format(name=name, load=load)}))
    assert "train.py" in found


def test_a_load_that_the_program_does_not_reach_is_no_reason(tmp_path: Path) -> None:
    text = f"{TEXT.format(name='T5EncoderModel', load=FLAN)}\n\ndef words():\n    return []\n"
    training = f"from text import words\n{ACCELERATE}\nwords()\n"
    assert set(changed(planned(tmp_path, {"train.py": training, "text.py": text}))) == {"train.py"}


MODEL = """import torch
from base import Base, registry
from transformers import {name}


@registry.register_model("{key}")
class {owner}(Base):
    def __init__(self, path):
        self.model = {name}.from_pretrained(path)

    def forward(self, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.model(batch)
"""
T5 = MODEL.format(name="T5ForConditionalGeneration", key="t5", owner="WithT5")
LLAMA = MODEL.format(name="LlamaForCausalLM", key="llama", owner="WithLlama")
REGISTERED = {
    "base.py": "import torch\n\nregistry = make()\n\n\nclass Base(torch.nn.Module):\n    pass\n",
    "train.py": f"import with_llama\nimport with_t5\n{ACCELERATE.replace('bf16', 'fp16')}",
    "with_t5.py": T5,
    "with_llama.py": LLAMA,
}


def test_another_registered_model_is_changed(tmp_path: Path) -> None:
    plan = planned(tmp_path, REGISTERED)
    assert set(changed(plan)) == {"with_llama.py"}
    assert [each.reason for each in plan.skipped if each.where == "with_t5.py"] == [
        "code that loads models whose activations overflow in float16"
    ]


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": f"import with_llama\nimport with_t5\n{ACCELERATE}"},
        {"with_llama.py": LLAMA.replace("register_model", "register_task")},
        {"with_t5.py": T5.replace('@registry.register_model("t5")\n', ""), "main.py": "from with_t5 import WithT5\n"},
    ],
    ids=["the loop changes too", "another kind of class", "the class is not registered"],
)
def test_code_that_may_run_with_the_overflowing_model_stays(tmp_path: Path, files: dict[str, str]) -> None:
    training = {"train.py": f"{REGISTERED['train.py']}\nwith_t5.WithT5()\n"} if "main.py" in files else {}
    assert changed(planned(tmp_path, {**REGISTERED, **training, **files})) == {}


def test_each_family_finds_its_classes_and_checkpoints() -> None:
    found = [bool(each.find(b'Udop.x(\nAutoModel.from_pretrained("microsoft/udop-large")')) for each in FAMILIES]
    assert found == [False, True, False]


OPTION = """import argparse

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

parser = argparse.ArgumentParser()
{option}
args = parser.parse_args()


def load_text():
    return AutoTokenizer.from_pretrained(args.teacher), AutoModelForSeq2SeqLM.from_pretrained(args.model_id)
"""
FIELD = """from dataclasses import dataclass, field

import torch
from transformers import AutoModelForSeq2SeqLM


@dataclass
class Settings:
    model_id: str = {default}


def load_text(settings=Settings()):
    return AutoModelForSeq2SeqLM.from_pretrained(settings.model_id)
"""
ADDED = 'parser.add_argument("--{name}", type=str, default="{default}")'


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        (OPTION.format(option=ADDED.format(name="model_id", default="google/flan-t5-xl")), True),
        (OPTION.format(option=ADDED.format(name="model-id", default="google/gemma-3-4b-it")), True),
        (FIELD.format(default='"google/umt5-xxl"'), True),
        (FIELD.format(default='field(default="google/t5-v1_1-base", metadata={"help": "a name"})'), True),
        (OPTION.format(option=ADDED.format(name="model_id", default="facebook/bart-large")), False),
        (OPTION.format(option=ADDED.format(name="teacher", default="google/flan-t5-xl")), False),
        (FIELD.format(default='"facebook/bart-large"'), False),
    ],
)
def test_the_default_of_an_option_names_the_model(tmp_path: Path, text: str, stays: bool) -> None:
    assert ("train.py" in changed(planned(tmp_path, {"train.py": USES, "text.py": text}))) is not stays
