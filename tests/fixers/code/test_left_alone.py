"""Uses of bfloat16 and FlashAttention that do not select them stay; similar code that does is changed."""

from __future__ import annotations

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import FileOutcome, plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import TITAN_RTX

TORCH = "import torch\n"
SPELLINGS = TORCH + 'BF = ["bf16", "bfloat16", torch.bfloat16]\n'
PAIRS = TORCH + 'for name, dtype in [("fp16", torch.float16), ("bf16", torch.bfloat16)]:\n    print(name, dtype)\n'
PAIR = TORCH + 'KNOWN = (("bf16", torch.bfloat16),)\n'
FILE_DTYPES = TORCH + 'TABLE = {"F32": torch.float32, "BF16": torch.bfloat16, "I8": torch.int8}\n'
FILE_DTYPE = 'dtype = "F32" if is_norm else "BF16"\n'
FLAG = TORCH + "from transformers import HfArgumentParser\n\ndtype = torch.bfloat16 if args.bf16 else torch.float16\n"
FLAGS = FLAG.replace("args.bf16 else torch.float16", "use_bf16 else (torch.half if use_fp16 else None)")
LADDER = """import torch
from transformers import TrainingArguments


def choose(args: TrainingArguments):
    if args.fp16:
        dtype = torch.float16
    elif args.bf16:
        dtype = torch.bfloat16
    return dtype
"""
BESIDE = LADDER.replace("    elif args.bf16", "    if args.bf16")
WORD = TORCH + 'dtype = torch.bfloat16 if args.mixed_precision == "bf16" else torch.float16\n'
KEPT = TORCH + "y = y.bfloat16() if x.dtype == torch.bfloat16 else y.half()\n"
KEPT_BRANCH = TORCH + "if x.dtype == torch.bfloat16:\n    y = y.to(torch.bfloat16)\n"
XLA = TORCH + 'with torch.autocast("xla", dtype=torch.bfloat16):\n    pass\n'
HPU = TORCH + 'with torch.autocast(device_type="hpu", dtype=torch.bfloat16):\n    pass\n'
BRANCH_OF_CPU = """hparams = {"precision": "bf16" if device == "cpu" else "fp16"}
if device == "cpu" and hparams["precision"] == "fp16":
    hparams["precision"] = "bf16"
"""
BRANCH_OF_TYPE = """import torch

dtype = torch.float16
if device.type in ("cpu", "mps"):
    dtype = torch.bfloat16
"""
ON_CPU = """import torch
from transformers import AutoModel

model = AutoModel.from_pretrained("a/b", torch_dtype=torch.bfloat16, device_map="cpu")
"""
AUTO_ON_CPU = ON_CPU.replace("torch.bfloat16", '"auto"').replace('"cpu"', '{"": "cpu"}')
SAVED = TORCH + 'model.to(torch.bfloat16)\nmodel.save_pretrained("out")\n'
SAVED_STATE = TORCH + 'torch.save({k: v.to(torch.bfloat16) for k, v in state.items()}, "model.pt")\n'
SAVED_LATER = TORCH + 'state = state.to(torch.bfloat16)\nprint("saving")\nsave_file(state, "model.safetensors")\n'
MERGED = (
    TORCH + "def merge_shards(state):\n    return {key: value.to(torch.bfloat16) for key, value in state.items()}\n"
)
LOW_BIT = TORCH + "def scale(w):\n    w = w.to(torch.float8_e4m3fn)\n    return w.to(torch.bfloat16)\n"
RING = """import torch
from flash_attn.flash_attn_interface import _flash_attn_backward


def ring_backward(dout, steps):
    for step in steps:
        if step:
            dq = _flash_attn_backward(dout)
        else:
            wait(step)
    return dq.to(torch.bfloat16)
"""
PACKS = """import torch
from flash_attn import flash_attn_func


def attend(q, k, v):
    out = flash_attn_func(q, k, v)
    return out.to(torch.bfloat16)
"""
CASTS_OF_TRL = "def peft_module_casting_to_bf16(model):\n    model.to(torch.bfloat16)\n"
READ_FLAG = TORCH + 'dtype = torch.bfloat16 if getattr(args, "bf16", False) else torch.half\nscale = args.fp16\n'
RETURNED_HALF = (
    TORCH
    + """def cast(t, cfg):
    if cfg.common.bf16:
        return t.bfloat16()
    return t.half()


scale = cfg.common.fp16_scale
"""
)
LOADED_FLASH = """import transformers


def choose(args):
    if args.flash_attn == "fa2":
        attn_implementation = "flash_attention_2"
    return attn_implementation
"""
NORMAL_FLASH = """class Arguments:
    def __post_init__(self):
        if self.attn_implementation in ("flash_attn", "flash_attn_2"):
            self.attn_implementation = "flash_attention_2"
"""
SPELT_FLASH = 'NAMES = {"flash_attention": "flash_attention_2", "eager": "eager"}\n'
PACKED = "class Packed:\n    def __init__(self, template):\n        template.padding_free = True\n"
PACKED_FIELD = "class Arguments:\n    padding_free: bool = True\n"
TABLE_WITH_AUTO = TORCH + 'TYPES = dict(fp16=torch.float16, bf16=torch.bfloat16, auto="auto")\n'
CACHE = """import torch


class KVCache(torch.nn.Module):
    def __init__(self, size, dtype=torch.bfloat16):
        self.keys = torch.zeros(size, dtype=dtype)


class Decoder:
    def setup_caches(self, size, dtype: torch.dtype = torch.bfloat16):
        self.cache = KVCache(size, dtype)
"""
ROTARY = """import torch


def compute_freqs_cis(length, dtype=torch.bfloat16):
    return torch.polar(torch.ones(length), torch.arange(length)).to(dtype)


def rotate(x, table):
    return (x.float() * table).type_as(x)
"""
ROTARY_CAST = ROTARY.replace(", dtype=torch.bfloat16", "").replace(".to(dtype)", ".to(dtype=torch.bfloat16)")
BESIDE_CPU = TORCH + 'dtype = torch.float32 if torch.device(args.device).type != "cpu" else torch.bfloat16\n'
BRANCH_BESIDE_CPU = TORCH + 'if device != "cpu":\n    x = x.half()\nelse:\n    x = x.to(torch.bfloat16)\n'
UNUSED_ARGUMENTS = """from trl import GRPOConfig


class Trainer:
    def __init__(self, args=None):
        if args is None:
            args = GRPOConfig("out")
"""
FLAG_OF_CALL = TORCH + "if args.bf16:\n    x = x.to(torch.bfloat16)\nelse:\n    x = x.half()\n"
OF_CHECKPOINT = """import json
import os


class ModelConfig:
    hidden_size: int = 1024
    dtype: str = "bfloat16"


def load(path):
    with open(os.path.join(path, "config.json")) as file:
        return ModelConfig(**json.load(file))
"""
VALIDATED = OF_CHECKPOINT.replace("ModelConfig(**json.load(file))", "ModelConfig.model_validate_json(file.read())")
OF_TRAINER = """import torch
from transformers import HfArgumentParser

(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
dtype = torch.float16 if args.fp16 else (torch.bfloat16 if args.bf16 else torch.float32)
if args.bf16 and weight.dtype == torch.float32:
    model = model.to(torch.bfloat16)
"""
OF_TRAINER_ELSEWHERE = """import torch

def cast(model, training_args):
    for module in model.modules():
        if training_args.bf16:
            module.to(torch.bfloat16)
"""
OF_RECIPE = """import torch

class Recipe:
    def dtype(self):
        bits = self.training_arguments
        if self.training_arguments.bf16 and bits.half:
            return torch.bfloat16
        return torch.float16 if self.train_args.fp16 else torch.bfloat16 if self.train_args.bf16 else torch.float32
"""
WITHOUT_FP16 = """import torch

def load(args, training_args):
    return Model.from_pretrained(args.name, torch_dtype=torch.float16 if training_args.fp16 else torch.bfloat16)
"""
BRANCH_WITHOUT_FP16 = """import torch
from transformers import HfArgumentParser

(args,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()
if args.fp16 and args.do_train:
    dtype = torch.float16
else:
    dtype = torch.bfloat16
"""
MODEL_CONFIG = """from transformers import PretrainedConfig


class VisionConfig(PretrainedConfig):
    def __init__(self, use_flash_attn=True, dtype="bfloat16", **options):
        super().__init__(**options)
"""
LEFT = {name: text for name, text in globals().items() if name.isupper() and isinstance(text, str) and name != "TORCH"}


def planned(text: str, path: str = "src/model.py") -> FileOutcome:
    return plan_file(path, text.encode(), source_fixers(), Target(TITAN_RTX))


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT.keys())
def test_a_use_that_does_not_select_bfloat16_stays(text: str) -> None:
    assert planned(text).change is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ON_CPU, "models on the CPU"),
        (AUTO_ON_CPU, "models on the CPU"),
        (SAVED, "weights that are saved"),
        (MERGED, "weights that are saved"),
        (LOW_BIT, "kernels for cards with FP8, FP4 or packed int4"),
        (CACHE, "key-value caches, and rotary tables whose results are cast to the dtype of the model"),
        (ROTARY, "key-value caches, and rotary tables whose results are cast to the dtype of the model"),
        (ROTARY_CAST, "key-value caches, and rotary tables whose results are cast to the dtype of the model"),
    ],
)
def test_a_place_that_stays_is_recorded_with_its_reason(text: str, reason: str) -> None:
    assert {left.reason for left in planned(text).skipped} == {reason}


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WITHOUT_FP16, "training_args.fp16", "args.small"),
        (BRANCH_WITHOUT_FP16, "args.fp16 and", "args.fp32 and"),
    ],
)
def test_the_other_branch_of_another_switch_selects_float16(text: str, old: str, new: str) -> None:
    change = planned(text.replace(old, new)).change
    assert change is not None and b"bfloat16" not in change.after


def test_a_load_that_becomes_float32_with_fp16_is_reported() -> None:
    load = OF_TRAINER + "model = Model.from_pretrained(name, torch_dtype=torch.bfloat16 if args.bf16 else None)\n"
    outcome = planned(load)
    assert outcome.change is None
    assert ["float32 weights, which need twice the memory" in finding.message for finding in outcome.findings] == [True]


def test_a_default_that_a_checkpoint_overrides_is_reported() -> None:
    (finding,) = planned(OF_CHECKPOINT).findings
    assert (
        finding.where == "src/model.py:7"
        and "dtype is not changed: a checkpoint's config.json sets it" in finding.message
    )
    assert finding.hint.endswith("src/model.py:12")


CHANGED = {
    "a rotary table that is used in its own dtype": ROTARY.replace(".type_as(x)", ""),
    "a dtype of a layer": CACHE.replace("KVCache", "Layer").replace("setup_caches", "setup"),
    "a branch for cards": BRANCH_OF_TYPE.replace('("cpu", "mps")', '("cuda", "cpu")'),
    "a branch for anything but the CPU": BRANCH_OF_TYPE.replace('in ("cpu", "mps")', '!= "cpu"'),
    "a list of devices and dtypes": TORCH + 'jobs = [["cuda:0", torch.bfloat16]]\n',
    "another flag": TORCH + 'dtype = torch.bfloat16 if "5b" in name else torch.float16\n',
    "a flag without float16": TORCH + "if args.bf16:\n    model.to(torch.bfloat16)\n",
    "arguments of TRL": "from trl import GRPOConfig\n\nargs = GRPOConfig('out')\n",
    "a default of another class": MODEL_CONFIG.replace("PretrainedConfig):", "nn.Module):"),
    "arguments of something else": OF_TRAINER_ELSEWHERE.replace("training_args", "args"),
    "another option of the training": OF_TRAINER_ELSEWHERE.replace("training_args.bf16", "training_args.use_half"),
    "arguments of another parser": OF_TRAINER.replace("HfArgumentParser", "Parser"),
    "a default that the code uses": OF_CHECKPOINT + "\n\nconfig = ModelConfig(hidden_size=8)\n",
    "a default that another file overrides": OF_CHECKPOINT.replace("config.json", "mine.yaml"),
    "a word that a function returns": 'def compute_dtype(on):\n    return "bfloat16" if on else "float16"\n',
    "a flag whose other branch is float32": RETURNED_HALF.replace("t.half()", "t.float()"),
    "a function with another attention": PACKS.replace(
        "    out = flash_attn_func(q, k, v)", "    out = flash_attn_func(q, k, v) if fast else attention(q, k, v)"
    ),
    "a flag that is on": TORCH + "def run(bf16=True):\n    return torch.bfloat16 if bf16 else torch.float16\n",
    "a key of the project's config": TORCH + 'dtype = torch.bfloat16 if cfg["bf16"] else torch.float16\n',
    "the other branch": TORCH + "dtype = torch.float16 if args.fp16 else torch.bfloat16\n",
    "a model that moves to the card": ON_CPU + "model.cuda()\n",
    "a model that is trained before it is saved": SAVED.replace("model.save", "train(model)\n" * 4 + "model.save"),
    "another model is saved": SAVED.replace("model.save", "other.save"),
    "a default that a call relies on": 'def f(attn_implementation="flash_attention_2"):\n'
    "    return attn_implementation\n\n\nf()\n",
    "padding_free beside flash": 'args = dict(attn_impl="flash_attn", padding_free=True)\n',
}


@pytest.mark.parametrize("text", CHANGED.values(), ids=CHANGED.keys())
def test_code_that_only_resembles_an_exception_is_still_changed(text: str) -> None:
    assert planned(text).change is not None
