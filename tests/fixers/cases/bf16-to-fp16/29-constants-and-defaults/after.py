import torch
from dataclasses import dataclass, field
from transformers import TrainingArguments

DTYPE = torch.float16
COMPUTE_DTYPE = "float16"
MIXED_PRECISION: str = "fp16"
TITLE = "bfloat16"


@dataclass
class Config:
    data_type: str = "float16"
    torch_dtype: str = field(default="float16", metadata={"help": "bfloat16 or float16"})
    bf16: bool = False
    fp16: bool = True


@dataclass
class Arguments(TrainingArguments):
    fp16: bool = field(default=True)


@dataclass
class Alone:
    bf16: bool = True


def build(dtype=torch.float16, *, precision="fp16", name="bf16"):
    pass


parser.add_argument("--dtype", type=str, default="float16", choices=["bfloat16", "float16"])
parser.add_argument("--mixed-precision", default='fp16')
parser.add_argument("--name", default="bf16")
