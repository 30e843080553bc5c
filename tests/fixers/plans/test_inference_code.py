"""Functions that only inference scripts call keep bfloat16, with the casts of these scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.inference_code import ONLY_INFERENCE
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import ACCELERATE, changed, planned

SPEECH = """import torch
from torch import nn
from transformers import AutoModelForCausalLM


class Speech(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.llm = AutoModelForCausalLM.from_pretrained(
            path,
            torch_dtype=torch.bfloat16,
        )

    def forward(self, sound):
        return self.llm(sound)

    def do_add_head(self):
        self.llm.head = self.head.to(torch.bfloat16)

    def generate4chat(self, sound):
        self.do_add_head()
        return self.llm.generate(sound.to(torch.bfloat16))
"""
TRAINING = f"from speech import Speech\n{ACCELERATE}".replace("torch.nn.Linear(2, 2)", 'Speech("base")')
LOADED = f"from speech import load\n{ACCELERATE}".replace("torch.nn.Linear(2, 2)", 'load("base")')
INFERENCE = """import torch
from speech import Speech


def show(text):
    print(text)


model = Speech("base").cuda().to(torch.bfloat16)
show(model.generate4chat(sound.to(torch.bfloat16)))
"""
NEVER_TRAINS = """import torch
from speech import Speech

model = Speech("base").cuda().to(torch.bfloat16)
print(model.generate4chat(sound.to(torch.bfloat16)))
"""
LOADING = """import torch
from speech import Speech


def load_all(path):
    model = Speech(path)
    model = model.to(torch.bfloat16)
    return model
"""
CALLING = "import torch\nfrom loading import load_all\n\nprint(load_all('a').generate4chat(sound.to(torch.bfloat16)))\n"
PLAIN = """import torch
from transformers import AutoModel


def load(path):
    return AutoModel.from_pretrained(path, torch_dtype=torch.bfloat16)


def narrow(sound):
    return sound.to(torch.bfloat16)


def say(model, sound):
    return model(narrow(sound))
"""
OF_PLAIN = """import torch
from speech import load, say

if __name__ == "__main__":
    model = load("base")
    model = model.eval().to(device="cuda", dtype=torch.bfloat16)
    print(say(model, sound))
"""
OWN = """import torch


class Decoder:
    def _narrow(self, sound):
        return sound.to(torch.bfloat16)

    def run_all(self, sound):
        return self.model(self._narrow(sound))


class Speech(torch.nn.Linear):
    pass
"""
OF_OWN = """import torch
from speech import Decoder, Speech


class Session:
    def __init__(self):
        self.model = Speech(2, 2)
        self.model = self.model.eval().bfloat16()

    def answer(self, sound):
        return Decoder(self.model).run_all(sound)


Session().answer(sound)
"""
BASE = {"train.py": TRAINING, "speech.py": SPEECH, "infer.py": INFERENCE}
LEFT = {
    "methods of a module": BASE,
    "methods of a module, and a script without functions": {**BASE, "infer.py": NEVER_TRAINS},
    "a model that another file loads": {**BASE, "infer.py": CALLING, "loading.py": LOADING},
    "functions": {"train.py": LOADED, "speech.py": PLAIN, "infer.py": OF_PLAIN},
    "methods of a class without library bases": {"train.py": TRAINING, "speech.py": OWN, "infer.py": OF_OWN},
}
SAME = {
    "a comment and a docstring": {"train.py": f'"""Train generate4chat."""\n# generate4chat is not used\n{TRAINING}'},
    "prose of a document": {"README.md": "The model can generate4chat in real time.\n"},
    "a comment of a config": {"train.yaml": "# generate4chat config\nlr: 1\n"},
    "output of a command": {"data.sh": 'echo "will generate4chat missing segments"  # generate4chat\n'},
    "another training": {
        "other/train.py": f"from words import Words\n{ACCELERATE}\nWords().generate4chat(batch)\n",
        "other/words.py": "class Words:\n    def generate4chat(self, batch):\n        return batch\n",
    },
    "a test of the loss": {"check.py": "from speech import Speech\n\nprint(Speech('a')(sound))\n"},
}
USED = {
    "evaluation in the training": {"train.py": f"{TRAINING}\nprint(model.generate4chat(batch))\n"},
    "evaluation in a module of the training": {
        "train.py": f"from evaluate import score\n{TRAINING}\nscore(model)\n",
        "evaluate.py": "def score(model):\n    return model.generate4chat(1)\n",
    },
    "forward": {"speech.py": SPEECH.replace("return self.llm(sound)", "return self.generate4chat(sound)")},
    "the main code of its module": {"speech.py": f"{SPEECH}\n\nSpeech('a').generate4chat(1)\n"},
    "getattr": {"train.py": f"{TRAINING}\ngetattr(model, 'generate4chat')(batch)\n"},
    "getattr with a composed name": {"train.py": f"{TRAINING}\ngetattr(model, f'generate4{{kind}}')(batch)\n"},
    "a value of a config": {"train.yaml": "evaluate: generate4chat  # slow\n"},
    "an argument of a command": {"run.sh": "python train.py --evaluate generate4chat\n"},
    "code of a document": {"README.md": "Call `model.generate4chat(sound)`.\n"},
    "a trainer, by a setting": {"train.yaml": "predict_with_generate: true\n"},
    "a trainer, by its class": {"tune.py": "from trl import GRPOTrainer\n\nGRPOTrainer(model=model).train()\n"},
    "a decorator": {"speech.py": SPEECH.replace("    def generate4", "    @register\n    def generate4")},
    "a command line": {"speech.py": f"{SPEECH}\n\nif __name__ == '__main__':\n    fire.Fire(Speech)\n"},
    "a training with computed imports": {
        "tune.py": f"import importlib\n{ACCELERATE}\nimportlib.import_module(name).generate4chat(batch)\n"
    },
}
MIXED = {
    "a script without a cast": {"infer.py": INFERENCE.replace(".cuda().to(torch.bfloat16)", "")},
    "a script with a cast in a branch": {
        "infer.py": INFERENCE.replace(".cuda().to(torch.bfloat16)", "\nif half:\n    model = model.to(torch.bfloat16)")
    },
    "a script with a chosen dtype": {"infer.py": INFERENCE.replace("cuda().to(torch.bfloat16)", "to(args.dtype)")},
    "a script that casts only data": {"infer.py": INFERENCE.replace("cuda().to(torch.bfloat16)", "cuda()")},
    "a second script without a cast": {"demo.py": INFERENCE.replace(".cuda().to(torch.bfloat16)", "")},
    "a cast in a function that the script does not call": {
        "infer.py": INFERENCE.replace(".cuda().to(torch.bfloat16)", ""),
        "loading.py": LOADING,
    },
    "a notebook": {
        "demo.ipynb": '{"cells": [{"cell_type": "code", "source": ["from speech import Speech\\n", '
        '"Speech(1).generate4chat(2)"]}]}'
    },
    "a cast in forward": {"speech.py": SPEECH.replace("self.llm(sound)", "self.llm(sound.to(torch.bfloat16))")},
    "a dtype in a name": {
        "speech.py": SPEECH.replace(
            "return self.llm(sound)", "dtype = torch.bfloat16\n        return self.llm(sound, dtype)"
        )
    },
    "autocast in forward": {
        "speech.py": SPEECH.replace(
            "        return self.llm(sound)",
            '        with torch.autocast("cuda", dtype=torch.bfloat16):\n            return self.llm(sound)',
        )
    },
    "a cast in another module": {
        "speech.py": f"from sound import narrow\n{SPEECH}".replace("self.llm(sound)", "self.llm(narrow(sound))"),
        "sound.py": "import torch\n\n\ndef narrow(x):\n    return x.to(torch.bfloat16)\n",
    },
}
OTHER_NAMES = {
    "a public method": ("generate4chat", "answer"),
    "a method that a library may call": ("do_add_head", "prepare_inputs"),
}


FACTORY = """import json
import torch
from torch import nn
from transformers import AutoModel


class Ranker(nn.Module):
    {decorator}
    def load({first}path, **options):
        with open(path) as file:
            options |= json.load(file)
        options.setdefault("torch_dtype", torch.bfloat16)
        options.setdefault("attn_implementation", "flash_attention_2")
        return AutoModel.from_pretrained(path, **options)

    def forward(self, sound):
        return self.head(sound)
"""
OF_FACTORY = f"import pickle\nfrom ranker import Ranker\n{ACCELERATE}".replace("torch.nn.Linear(2, 2)", "Ranker()")
RANKED = {
    "train.py": f"{OF_FACTORY}\npickle.load(file)\ntorch.load(file)\n",
    "rank.py": "from ranker import Ranker\n\nprint(Ranker.load('a')(sound))\n",
}
TRAINS_LOADED = {
    "a training that calls it": {"train.py": OF_FACTORY.replace("Ranker()", "Ranker.load('a')")},
    "a training with an unknown object": {"train.py": f"{OF_FACTORY}\nmodel.load('a')\n"},
    "a document": {"README.md": "Call `Ranker.load(path)`.\n"},
    "a config": {"train.yaml": "model: ranker.Ranker.load\n"},
}


@pytest.mark.parametrize(("decorator", "first"), [("@classmethod", "cls, "), ("@staticmethod", "")])
def test_a_method_of_a_class_that_only_inference_scripts_call_stays(tmp_path: Path, decorator: str, first: str) -> None:
    ranker = FACTORY.format(decorator=decorator, first=first)
    plan = planned(tmp_path, {**RANKED, "ranker.py": ranker})
    assert set(changed(plan)) == {"train.py"}
    assert {each.where for each in plan.skipped if each.reason == ONLY_INFERENCE} == {"ranker.py:12", "ranker.py:13"}
    other = ranker.replace("self.head(sound)", "self.head(sound.to(torch.bfloat16))")
    assert "bfloat16" not in changed(planned(tmp_path, {"ranker.py": other}))["ranker.py"]


@pytest.mark.parametrize("other", TRAINS_LOADED.values(), ids=TRAINS_LOADED)
def test_a_method_of_a_class_that_a_training_may_call_is_converted(tmp_path: Path, other: dict[str, str]) -> None:
    ranker = FACTORY.format(decorator="@classmethod", first="cls, ")
    assert "bfloat16" not in changed(planned(tmp_path, {**RANKED, "ranker.py": ranker, **other}))["ranker.py"]


@pytest.mark.parametrize("files", LEFT.values(), ids=LEFT)
def test_functions_that_only_inference_scripts_call_stay_with_the_scripts(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plan = planned(tmp_path, files)
    found = changed(plan)
    assert set(found) <= {"train.py", "speech.py"}
    assert 'mixed_precision="fp16"' in found["train.py"]
    assert ".to(torch.float16)" not in found.get("speech.py", "")
    assert ("torch_dtype=torch.float16" in found.get("speech.py", "")) == ("torch_dtype" in files["speech.py"])
    assert {each.where.partition(":")[0] for each in plan.skipped if each.reason == ONLY_INFERENCE} == {"speech.py"}
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()


@pytest.mark.parametrize("other", SAME.values(), ids=SAME)
def test_a_text_that_calls_no_function_of_the_module_does_not_convert_it(tmp_path: Path, other: dict[str, str]) -> None:
    found = changed(planned(tmp_path, {**BASE, **other}))
    assert "infer.py" not in found
    assert found["speech.py"] == SPEECH.replace("torch_dtype=torch.bfloat16", "torch_dtype=torch.float16")


@pytest.mark.parametrize("other", USED.values(), ids=USED)
def test_a_function_that_a_training_may_call_is_converted(tmp_path: Path, other: dict[str, str]) -> None:
    found = changed(planned(tmp_path, {**BASE, **other}))
    assert "bfloat16" not in found["speech.py"]
    assert "bfloat16" not in found["infer.py"]


@pytest.mark.parametrize("other", MIXED.values(), ids=MIXED)
def test_a_function_is_converted_if_a_script_depends_on_dtypes_of_the_training(
    tmp_path: Path, other: dict[str, str]
) -> None:
    found = changed(planned(tmp_path, {**BASE, **other}))
    assert "bfloat16" not in found["speech.py"]
    assert "bfloat16" not in found["infer.py"]


@pytest.mark.parametrize(("old", "new"), OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_other_methods_of_a_module_are_converted(tmp_path: Path, old: str, new: str) -> None:
    found = changed(planned(tmp_path, {path: text.replace(old, new) for path, text in BASE.items()}))
    assert "bfloat16" not in found["speech.py"]


def test_a_helper_method_of_a_class_of_a_library_is_converted(tmp_path: Path) -> None:
    speech = SPEECH.replace("from torch import nn", "from torch import nn\nfrom lib import Base").replace(
        "Speech(nn.Module)", "Speech(Base)"
    )
    assert "bfloat16" not in changed(planned(tmp_path, {**BASE, "speech.py": speech}))["speech.py"]
