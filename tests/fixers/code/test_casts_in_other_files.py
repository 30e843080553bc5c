"""Weights that other files of the project make half, or cast to float32."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.code.test_needless_casts import HALF, HEAD, TAKES
from tests.fixers.offers import plan_offers


@pytest.mark.parametrize(
    "body",
    ["self.llm = AutoModel.from_pretrained(name, torch_dtype=torch.float16)", "self.llm = build(name).half()"],
)
def test_a_class_of_another_file_that_makes_half_weights_is_cast(tmp_path: Path, body: str) -> None:
    model = f"import torch.nn as nn\n\n\nclass Vits(nn.Module):\n    def __init__(self, name):\n        {body}\n"
    assert "train.py" in changed(tmp_path, model, HEAD + "model = Vits(config)\n" + TAKES)
    plain = model.replace(body, "self.llm = nn.Linear(2, 2)")
    assert changed(tmp_path, plain, HEAD + "model = Vits(config)\n" + TAKES) == set()


@pytest.mark.parametrize(
    ("body", "casts"),
    [
        ("    return AutoModel.from_pretrained(name, torch_dtype=torch.float16)", True),
        ("    return nn.Linear(2, 2).half()", True),
        ("    return nn.Linear(2, 2)", False),
        ("    model = nn.Linear(2, 2)\n    if name.fp16:\n        model.half()\n    return model", False),
    ],
)
def test_a_function_of_another_file_that_makes_half_weights_is_followed(tmp_path: Path, body: str, casts: bool) -> None:
    model = f"import torch\nimport torch.nn as nn\n\n\ndef build(name):\n{body}\n"
    train = HEAD + "from models import build\n\nmodel = build(config)\n" + TAKES
    assert ("train.py" in changed(tmp_path, model, train)) is casts


QUANTISED = """    dtypes = dict(load_in_8bit={switch}, torch_dtype=torch.float16 if name.lora else None)
    model = AutoModel.from_pretrained(name, **dtypes)
    if name.lora:
        model = get_peft_model(prepare_model_for_int8_training(model), LoraConfig())
    return model
"""


@pytest.mark.parametrize(("switch", "casts"), [("True if name.lora else False", False), ("True", True)])
def test_a_model_that_is_prepared_for_adapters_is_not_cast_again(tmp_path: Path, switch: str, casts: bool) -> None:
    model = f"import torch\nimport torch.nn as nn\n\n\ndef build(name):\n{QUANTISED.format(switch=switch)}\n"
    train = HEAD + "from models import build\n\nmodel = build(config)\n" + TAKES
    assert ("train.py" in changed(tmp_path, model, train)) is casts


CASTER = """import torch


def to_float(model):
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype != torch.float32:
            parameter.data = parameter.data.float()
"""
OF_METHOD = """class Casting:
    @staticmethod
    def to_float(model):
        trained = [p for p in model.parameters() if p.requires_grad]
        for p in trained:
            p.data = p.data.to(dtype=torch.float32)
"""


@pytest.mark.parametrize(
    ("model", "line", "casts"),
    [
        (CASTER, "from models import to_float\nto_float(model)\n", False),
        (OF_METHOD, "from models import Casting\nCasting.to_float(model)\n", False),
        (CASTER.replace("requires_grad", "is_leaf"), "from models import to_float\nto_float(model)\n", True),
        (CASTER, "from other import to_float\nto_float(model)\n", True),
        (CASTER, "from models import to_float\nto_float(teacher)\n", True),
    ],
)
def test_a_function_of_another_file_that_casts_is_recognised(
    tmp_path: Path, model: str, line: str, casts: bool
) -> None:
    assert ("train.py" in changed(tmp_path, model, HEAD + HALF + line + TAKES)) is casts


SPEECH = """from transformers import {name}, Trainer, TrainingArguments

model = {name}.from_pretrained({given})
model.config.forced_decoder_ids = None
trainer = Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=data)
"""


@pytest.mark.parametrize(
    ("name", "given", "casts"),
    [
        ("WhisperForConditionalGeneration", '"openai/whisper-small"', False),
        ("AutoModelForSpeechSeq2Seq", "args.model, config=config, cache_dir=args.cache", False),
        ("Wav2Vec2ForCTC", '"facebook/wav2vec2-base", ctc_loss_reduction="mean"', False),
        ("WhisperForConditionalGeneration", '"openai/whisper-large-v3"', True),
        ("WhisperForConditionalGeneration", '"a/b", torch_dtype=dtype', True),
        ("WhisperForConditionalGeneration", '"a/b", **options', True),
        ("AutoModelForCausalLM", '"a/b"', True),
    ],
)
def test_a_speech_model_loaded_without_a_dtype_is_float32(tmp_path: Path, name: str, given: str, casts: bool) -> None:
    train = SPEECH.format(name=name, given=given)
    assert ("train.py" in changed(tmp_path, PLAIN, train)) is casts
    half = train.replace("trainer =", "model.half()\ntrainer =")
    assert "train.py" in changed(tmp_path, PLAIN, half)


def changed(root: Path, model: str, train: str) -> set[str]:
    (root / "models.py").write_text(model, "utf-8")
    (root / "train.py").write_text(train, "utf-8")
    plan = plan_offers(Site(DiskTree(root), gpu=TITAN_RTX), only=["trainable-fp32"])
    return {change.path for change in plan.changes if isinstance(change, FileChange)}


TWIN = "from transformers import AutoModel\n\n\ndef build(name):\n    return AutoModel.from_pretrained(name).half()\n"
PLAIN = "import torch.nn as nn\n\n\ndef build(name):\n    return nn.Linear(2, 2)\n"


@pytest.mark.parametrize(("module", "casts"), [("speech.models", False), ("speech.serve", True)])
def test_a_function_of_the_same_name_in_another_module_is_not_meant(tmp_path: Path, module: str, casts: bool) -> None:
    (tmp_path / "speech").mkdir()
    (tmp_path / "speech/serve.py").write_text(TWIN, "utf-8")
    (tmp_path / "speech/models.py").write_text(PLAIN, "utf-8")
    train = HEAD + f"from {module} import build\n\nmodel = build(config)\n" + TAKES
    assert ("train.py" in changed(tmp_path, PLAIN, train)) is casts


def test_autocast_in_a_class_of_another_file_makes_no_half_weights(tmp_path: Path) -> None:
    body = (
        "    def forward(self, x):\n        with torch.autocast('cuda', dtype=torch.float16):\n            return x\n"
    )
    model = "import torch\nfrom torch import nn\n\n\nclass Vits(nn.Module):\n" + body
    assert changed(tmp_path, model, HEAD + "model = Vits(config)\n" + TAKES) == set()
    inside = "class Run(Base):\n    def make(self):\n        self.net = Vits(config, dtype=self.dtype)\n        "
    assert changed(tmp_path, model, HEAD + inside + TAKES.replace("model.", "self.net.")) == set()


@pytest.mark.parametrize(("folder", "casts"), [("other", False), ("tune/models", True), ("tune", True)])
def test_a_function_is_imported_from_the_nearest_file_of_its_name(tmp_path: Path, folder: str, casts: bool) -> None:
    half = "def get_model(name):\n    return AutoModel.from_pretrained(name, torch_dtype=torch.float16)\n"
    train = HEAD + "from load import get_model\n\nmodel = get_model(config)\n" + TAKES
    files = {"tune/train.py": train, "tune/load.py": half.replace(", torch_dtype=torch.float16", ""), "x/run.py": ""}
    for path, text in {
        **files,
        f"{folder}/load.py": f"import torch\nfrom transformers import AutoModel\n\n{half}",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX), only=["trainable-fp32"])
    assert ("tune/train.py" in {each.path for each in plan.changes if isinstance(each, FileChange)}) is casts
