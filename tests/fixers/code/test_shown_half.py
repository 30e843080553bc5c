"""A model is cast to float32, or reported, only where the file shows that it may be half when its optimizer is made."""

from __future__ import annotations

import pytest

from fixers.code import trainable_fp32
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.sources.file_roles import half_models_in
from tests.fixers.casebook import TITAN_RTX

HEAD = "import torch\nfrom transformers import AutoModelForCausalLM, Trainer\n"
TRAINER = "trainer = Trainer(model=model, args=args)\n"
LOAD = 'model = AutoModelForCausalLM.from_pretrained("m"{})\n'
FP16 = "args = TrainingArguments('out', fp16=True)\n"
PURE = "if config.pure_bf16:\n    model.to(torch.bfloat16)\n"
LORA = "for module in model.modules():\n    if args.bf16:\n        module = module.to(torch.bfloat16)\n"
UNSLOTH = "from unsloth import FastLanguageModel\n\nmodel, tokenizer = FastLanguageModel.from_pretrained('m')\n"
ADAPTED = UNSLOTH + "model = FastLanguageModel.get_peft_model(model)\n"
GROUPED = "from build import get_grouped_parameters\n\ngroups = get_grouped_parameters(model, 0.1)\n"
OPTIMIZER = "optimizer = torch.optim.AdamW(groups)\n"
GROUPS = """class Net(torch.nn.Module):
    def configure(self):
        groups = [{"params": [p for n, p in self.table.items()]}]
        return torch.optim.AdamW(groups, lr=1e-4)
"""


def _planned(text: str, packages: dict[str, str] | None = None):
    return plan_file("train.py", (HEAD + FP16 + text).encode(), [trainable_fp32], Target(TITAN_RTX, packages or {}))


@pytest.mark.parametrize(
    ("text", "casts"),
    [
        (LOAD.format(", torch_dtype=torch.float16") + TRAINER, True),
        (LOAD.format(", torch_dtype=torch.float16") + PURE + TRAINER, False),
        (LOAD.format(", torch_dtype=torch.float16") + LORA + TRAINER, False),
        (LOAD.format(", torch_dtype=torch.float16") + PURE + "model.half()\n" + TRAINER, True),
        (LOAD.format(", torch_dtype=torch.float16") + PURE.replace("model", "vae") + TRAINER, True),
        (ADAPTED + TRAINER, False),
        (UNSLOTH + TRAINER, False),
        (ADAPTED.replace("unsloth", "mine") + TRAINER, True),
        (LOAD.format(", torch_dtype=torch.float16") + GROUPED + OPTIMIZER, True),
    ],
)
def test_a_model_that_stays_bfloat16_or_that_unsloth_makes_is_not_cast(text: str, casts: bool) -> None:
    assert (_planned(text).change is not None) is casts


@pytest.mark.parametrize(
    ("options", "casts"), [("", False), (", load_in_8bit=False", False), (", load_in_8bit=True", True)]
)
def test_an_older_transformers_loads_in_float32_unless_it_quantises(options: str, casts: bool) -> None:
    text = LOAD.format(options) + TRAINER
    assert (_planned(text, {"transformers": "4.28.0"}).change is not None) is casts


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (GROUPS, False),
        (GROUPS + "\n\nposition = torch.arange(0, 8, dtype=torch.long)\n", False),
        (GROUPS + "\n\nnet = Net().to(torch.float16)\n", True),
        (GROUPS + "\n\nnet = load(dtype=args.dtype)\n", True),
    ],
)
def test_an_optimizer_without_a_named_model_is_reported_only_beside_half_weights(text: str, reported: bool) -> None:
    assert bool(_planned(text).findings) is reported


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("load_in_8bit=True", ["build"]),
        ("torch_dtype=torch.float16", ["build"]),
        ("load_in_8bit=False", []),
        ("# torch_dtype=torch.float16", []),
        ('"""Measured against the float16 peak."""', []),
    ],
)
def test_a_comment_or_a_switch_that_is_off_makes_no_half_model(line: str, found: list[str]) -> None:
    body = f"def build():\n    return M.from_pretrained(\n        'm',\n        {line}\n    )\n"
    assert list(half_models_in(body.encode())) == found


BUILDS = """def build(args):
    model = Loader.from_pretrained(
        "m",
        load_in_8bit={quantised},
        torch_dtype={dtype},
    )
    if args.lora:
        names = ["q", "v"]
   \t
        model = {prepare}(model)
        model = get_peft_model(model, LoraConfig(target_modules=names))
    return model
"""


@pytest.mark.parametrize("prepare", ["prepare_model_for_int8_training", "peft.prepare_model_for_kbit_training"])
@pytest.mark.parametrize(
    "dtype", ["torch.float16 if args.lora else None", "torch.half if args.lora else torch.float32"]
)
def test_a_load_that_is_prepared_for_adapters_under_the_same_condition_makes_no_half_model(
    prepare: str, dtype: str
) -> None:
    body = BUILDS.format(quantised="True if args.lora else False", dtype=dtype, prepare=prepare)
    assert list(half_models_in(body.encode())) == []
    texts = [body.replace("if args.lora:", "if args.other:"), body.replace(prepare, "prepare")]
    texts += [
        body.replace(f"dtype={dtype}", "dtype=torch.float16"),
        body.replace("if args.lora:", "if args.x and lora:"),
    ]
    texts += [body.replace(f"model = {prepare}", f"pass  # {prepare}")]
    assert [list(half_models_in(text.encode())) for text in texts] == [["build"]] * 5
