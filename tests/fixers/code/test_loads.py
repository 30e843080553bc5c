"""The dtype in which models are loaded: whole encoders, models that are only saved, and loads that are tried again."""

from __future__ import annotations

import pytest

from fixers.frame.change import FileChange
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import TITAN_RTX

TORCH = "import torch\n"
FREEZES = "if args.freeze:\n    for k, p in model.named_parameters():\n"
FROZEN = "        p.requires_grad = False\n"
ENCODER = "from transformers import AutoModel, AutoModelForSequenceClassification as Ranker\n\n"


def change_of(text: str) -> FileChange | None:
    return plan_file("train.py", text.encode(), source_fixers(), Target(TITAN_RTX, {"transformers": "5.1"})).change


def is_float16(text: str) -> bool:
    change = change_of(text)
    return change is not None and b"float16" in change.after


@pytest.mark.parametrize(
    ("code", "edited"),
    [
        ("model = AutoModel.from_pretrained('m')\n", False),
        ("model = Ranker.from_pretrained('m', num_labels=1)\n", False),
        ("model = AutoModel.from_pretrained('m')\nmodel = get_peft_model(model, LoraConfig())\n", True),
        ("model = Ranker.from_pretrained('m')\nmodel.requires_grad_(False)\n", True),
        (f"model = AutoModel.from_pretrained('m')\n{FREEZES}{FROZEN}", True),
        (f"model = AutoModel.from_pretrained('m')\n{FREEZES}        if 'position' in k:\n    {FROZEN}", False),
        ("model = Ranker.from_pretrained('m')\nmodel.head.requires_grad_(True)\n", False),
        ("model = AutoModel.from_pretrained('m', dtype='auto')\n", True),
    ],
)
def test_a_whole_encoder_is_not_loaded_in_float16(code: str, edited: bool) -> None:
    assert is_float16(f"{ENCODER}{code}") is edited


LOADED = "from transformers import AutoModelForCausalLM\nfrom peft import PeftModel\n\n"
FUSES = """def {name}(args, out):
    model = AutoModelForCausalLM.from_pretrained(args.base)
    model = PeftModel.from_pretrained(model, out)
    {step}
    model.save_pretrained(out)
"""


@pytest.mark.parametrize(
    ("name", "step", "edited"),
    [
        ("fuse", "model = model.merge_and_unload()", False),
        ("save_merged_model", "model = model.merge_and_unload()", False),
        ("fuse", "model.eval()\n    save_tokenizer(model, out)", False),
        ("fuse", "run(model, args)", True),
        ("fuse", "Trainer(model=model, args=args).train()", True),
        ("fuse", "model.train()", True),
        ("fuse", "args.model = model", True),
    ],
)
def test_a_model_that_is_loaded_only_to_be_saved_keeps_its_dtype(name: str, step: str, edited: bool) -> None:
    assert is_float16(LOADED + FUSES.format(name=name, step=step)) is edited


LOADS = (
    "try:\n    net = Speech.load(name, dtype={first})\nexcept OSError:\n    net = Other.load(name, dtype={second})\n"
)
PROBES = (
    "try:\n    torch.zeros(1, dtype={first})\n    dtype = torch.float16\nexcept RuntimeError:\n    dtype = {second}\n"
)


@pytest.mark.parametrize("dtype", ["torch.bfloat16", "torch.bfloat16 if args.bf16 else torch.float32"])
def test_a_load_that_is_tried_again_in_another_way_has_one_dtype(dtype: str) -> None:
    half = dtype.replace("bfloat16", "float16")
    change = change_of(TORCH + LOADS.format(first=dtype, second=dtype))
    assert change is not None
    assert change.after.decode() == TORCH + LOADS.format(first=half, second=half)


@pytest.mark.parametrize("text", [LOADS, PROBES])
def test_a_fallback_to_bfloat16_stays(text: str) -> None:
    assert change_of(TORCH + text.format(first="torch.float16", second="torch.bfloat16")) is None
