"""Code that a training does not reach from its main code, by names and imports, is not changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import ACCELERATE, changed, notebook, planned

RANKER = """import torch


class Ranker:
    def __init__(self, name):
        self.model = load(name, torch_dtype=torch.bfloat16)

    @staticmethod
    def words(text):
        return text.split()
"""
READS = "from voice.data import read\n"
PACKAGE = {"voice/data.py": "def read(path):\n    return open(path)\n", "voice/serve/ranker.py": RANKER}
EXPORTS = "from .serve import Ranker\n"
MAPPED = "from collections import OrderedDict\nfrom .ranker import Ranker\n\nKINDS = OrderedDict([('a', Ranker)])\n"
CONFIG = """import torch
from transformers import PretrainedConfig


class VoiceConfig(PretrainedConfig):
    def __init__(self, **options):
        self.dtype = torch.bfloat16
        super().__init__(**options)
"""
MODEL = """from transformers import PreTrainedModel
from .config import VoiceConfig


class Voice(PreTrainedModel):
    config_class = VoiceConfig

    def __init__(self, config: VoiceConfig):
        super().__init__(config)
"""
LOADS = "from voice.model import Voice\n{imports}" + ACCELERATE + "\nvoice = Voice.from_pretrained('a/b'{config})\n"
TRAIN = f"{READS}{ACCELERATE}"

LEFT = {
    "a class that the package only exports": {"voice/__init__.py": EXPORTS, "voice/serve/__init__.py": MAPPED},
    "a class with another name in its package": {
        "voice/__init__.py": "from .serve import Scorer\n",
        "voice/serve/__init__.py": "from .ranker import Ranker\n\nScorer = Ranker\n",
    },
    "a class with a static method that is called": {
        "voice/__init__.py": "",
        "train.py": f"from voice.serve.ranker import Ranker\n{TRAIN}\nRanker.words('a b')\n",
    },
    "a class that a function creates which is never called": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n\n\ndef rank(name):\n    return Ranker(name)\n",
    },
    "a class that a config names, while only attributes of objects are picked by name": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n",
        "train.py": f"import voice\n{TRAIN}\nprint(getattr(args, name))\n",
        "kinds.yaml": "kind: Ranker\n",
    },
    "a class of the same name in the folder of the program": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n",
        "tune/ranker.py": "class Ranker:\n    pass\n",
        "tune/train.py": f"import voice\nfrom .ranker import Ranker\n{ACCELERATE}\nRanker()\n",
        "train.py": "",
    },
}
CHANGED = {
    "a class that the program creates": {"train.py": f"from voice.serve.ranker import Ranker\n{TRAIN}\nRanker('a')\n"},
    "a class of a table that the program reads": {
        "voice/__init__.py": EXPORTS,
        "voice/serve/__init__.py": MAPPED,
        "train.py": f"from voice.serve import KINDS\n{TRAIN}\nKINDS['a']('b')\n",
    },
    "a class under another name": {
        "voice/__init__.py": "from .serve.ranker import Ranker as Scorer\n",
        "train.py": f"import voice\n{TRAIN}\nvoice.Scorer('a')\n",
    },
    "a class that a decorator registers": {
        "voice/__init__.py": "from .serve import ranker\n",
        "voice/serve/ranker.py": RANKER.replace("class Ranker", "@register('ranker')\nclass Ranker"),
    },
    "a class that a call registers": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n\nKIND = register('ranker', Ranker)\n",
    },
    "a class named by a string": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n",
        "train.py": f"import voice\n{TRAIN}\ngetattr(voice, 'Ranker')('a')\n",
    },
    "a class that a config names": {
        "voice/__init__.py": "from .serve.ranker import Ranker\n",
        "train.py": f"import voice.data\nimport voice\n{TRAIN}\ngetattr(voice, config['kind'])('a')\n",
        "kinds.yaml": "kind: Ranker\n",
    },
    "a class that a config names, of a renamed module": {
        "voice/__init__.py": "",
        "train.py": f"from voice.serve import ranker as kinds\n{TRAIN}\ngetattr(\n    kinds, name\n)('a')\n",
        "kinds.json": '{"kind": "Ranker"}',
    },
    "a class whose class method creates it": {
        "voice/serve/ranker.py": f"{RANKER}\n    @classmethod\n    def load(cls, name):\n        return cls(name)\n",
        "train.py": f"from voice.serve.ranker import Ranker\n{TRAIN}\nRanker.load('a')\n",
    },
    "a base class": {
        "train.py": f"from voice.serve.ranker import Ranker\n{TRAIN}\n\nclass Own(Ranker):\n    pass\n\n\nOwn('a')\n",
    },
}


@pytest.mark.parametrize("files", LEFT.values(), ids=LEFT)
def test_a_class_that_no_training_creates_stays(tmp_path: Path, files: dict[str, str]) -> None:
    found = set(changed(planned(tmp_path, {"train.py": TRAIN, **PACKAGE, **files})))
    assert found == {"tune/train.py" if "tune/train.py" in files else "train.py"}


@pytest.mark.parametrize("files", CHANGED.values(), ids=CHANGED)
def test_a_class_that_a_training_may_create_is_changed(tmp_path: Path, files: dict[str, str]) -> None:
    found = set(changed(planned(tmp_path, {"train.py": TRAIN, "voice/__init__.py": "", **PACKAGE, **files})))
    assert found == {"train.py", "voice/serve/ranker.py"}


@pytest.mark.parametrize(
    ("imports", "config", "belongs"),
    [
        ("from transformers import AutoConfig\n", ", config=AutoConfig.from_pretrained('a/b')", False),
        ("", "", True),
        ("from voice.config import VoiceConfig\n", ", config=VoiceConfig()", True),
        ("", ", **options", True),
    ],
)
def test_the_config_class_of_a_model_is_created_only_if_a_load_gets_no_config(
    tmp_path: Path, imports: str, config: str, belongs: bool
) -> None:
    files = {"voice/config.py": CONFIG, "voice/model.py": MODEL, "voice/__init__.py": ""}
    found = changed(planned(tmp_path, {"train.py": LOADS.format(imports=imports, config=config), **files}))
    assert set(found) == {"train.py", *(["voice/config.py"] if belongs else [])}


FITS = "from accelerate import Accelerator\n\n\ndef train(model):\n    Accelerator().backward(model.loss())\n"
SHOWS = "from voice.fit import {name}\nfrom voice.words import {name} as words\nimport torch\n\n"
SHOW = SHOWS + "model = load('a', torch_dtype=torch.bfloat16)\nprint(words(model))\n{call}"


@pytest.mark.parametrize(("name", "call", "trains"), [("WORDS", "", False), ("train", "train(model)\n", True)])
@pytest.mark.parametrize("path", ["show.py", "tour.ipynb"])
def test_a_script_that_imports_a_training_and_does_not_reach_it_stays(
    tmp_path: Path, path: str, name: str, call: str, trains: bool
) -> None:
    code = "import sys\n" + SHOW.format(name=name, call=call) + "print(sys.argv)\n"
    text = notebook(code.replace("\n", "\\n")) if path.endswith(".ipynb") else code
    files = {
        "voice/__init__.py": "",
        "voice/fit.py": FITS + "\n\nWORDS = 1\n",
        "voice/words.py": "train = WORDS = str\n",
    }
    assert (path in changed(planned(tmp_path, {"train.py": ACCELERATE, **files, path: text}))) is trains


def _classes(kind: str, last: str) -> str:
    """Return classes whose bases are defined after them, up to classes with the base `last`."""
    if kind == "chain":
        rows = [f"class A{at}(A{at + 1}):\n    pass\n" for at in range(1000)]
        return "".join([*rows, f"class A1000({last}):\n    pass\n"])
    rows = [f"class {name}{at}(A{at + 1}, B{at + 1}):\n    pass\n" for at in range(60) for name in "AB"]
    return "".join([*rows, *(f"class {name}60({last}):\n    pass\n" for name in "AB")])


@pytest.mark.parametrize("kind", ["chain", "diamonds"])
@pytest.mark.parametrize("last", ["object", "Missing", "A0"])
def test_SE_many_levels_of_base_classes_are_followed_once(tmp_path: Path, kind: str, last: str) -> None:
    ranker = RANKER.replace("class Ranker:", "class Ranker(A0):") + "\n\n" + _classes(kind, last)
    train = f"from voice.serve.ranker import Ranker\n{TRAIN}\nRanker('a')\n"
    files = {"train.py": train, "voice/__init__.py": "", **PACKAGE, "voice/serve/ranker.py": ranker}
    assert set(changed(planned(tmp_path, files))) == {"train.py", "voice/serve/ranker.py"}
