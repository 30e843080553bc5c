import torch
from dataclasses import dataclass, field
from transformers import TrainingArguments

DTYPE = torch.bfloat16
COMPUTE_DTYPE = "bfloat16"
MIXED_PRECISION: str = "bf16"
TITLE = "bfloat16"


@dataclass
class Config:
    data_type: str = "bfloat16"
    torch_dtype: str = field(default="bfloat16", metadata={"help": "bfloat16 or float16"})
    bf16: bool = True
    fp16: bool = False


@dataclass
class Arguments(TrainingArguments):
    bf16: bool = field(default=True)


@dataclass
class Alone:
    bf16: bool = True


def build(dtype=torch.bfloat16, *, precision="bf16", name="bf16"):
    pass


parser.add_argument("--dtype", type=str, default="bfloat16", choices=["bfloat16", "float16"])
parser.add_argument("--mixed-precision", default='bf16')
parser.add_argument("--name", default="bf16")
