"""Projects that read their precision with parsers: argparse, click, typer, dataclasses, pydantic, enumerations."""

from __future__ import annotations

from tests.fixers.schemas.project import Project

TABLE = """import torch

DTYPES = {"BF": torch.bfloat16, "HALF": torch.float16, "FULL": torch.float32}
"""
ARGPARSE = """import argparse

from dtypes import DTYPES

parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=["BF", %s"FULL"], default="FULL")
args = parser.parse_args()
print(DTYPES[args.precision])
"""
ARGPARSE_DEFAULT = """import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", choices=("BF", %s"FULL"), default="BF")
args = parser.parse_args()
if args.dtype == "BF":
    dtype = torch.bfloat16
elif args.dtype == "HALF":
    dtype = torch.float16
else:
    dtype = torch.float32
print(dtype)
"""
NAMED_CHOICES = """import argparse

import torch

WORDS = ["BF", "FULL"]
parser = argparse.ArgumentParser()
parser.add_argument("--mixed-precision", choices=WORDS)
args = parser.parse_args()
print({"BF": torch.bfloat16, "FULL": torch.float32}[args.mixed_precision])
"""
CLICK = """import click
import torch


@click.command()
@click.option("--dtype", type=click.Choice(["BF", %s"FULL"]), default="BF")
def main(dtype):
    print({"BF": torch.bfloat16, "HALF": torch.float16, "FULL": torch.float32}[dtype])


main()
"""
TYPER = """from enum import Enum

import torch
import typer


class Precision(str, Enum):
    low = "BF"
    %s
    full = "FULL"


def main(precision: Precision = typer.Option(Precision.full, "--precision")):
    print({"BF": torch.bfloat16, "HALF": torch.float16, "FULL": torch.float32}[precision.value])


typer.run(main)
"""
PYDANTIC = """from typing import Literal

import torch
import yaml
from pydantic import BaseModel


class Config(BaseModel):
    precision: Literal["BF", %s"FULL"] = "FULL"
    steps: int = 1


config = Config(**yaml.safe_load(open("train.yaml")))
print({"BF": torch.bfloat16, "HALF": torch.float16, "FULL": torch.float32}[config.precision])
"""
VALIDATOR = """import torch
import yaml
from pydantic import BaseModel, field_validator


class Config(BaseModel):
    precision: str = "FULL"

    @field_validator("precision")
    @classmethod
    def known(cls, value):
        if value not in ("BF", %s"FULL"):
            raise ValueError(value)
        return value


config = Config(**yaml.safe_load(open("train.yaml")))
print({"BF": torch.bfloat16, "HALF": torch.float16, "FULL": torch.float32}[config.precision])
"""
METADATA = """import dataclasses
import sys

import torch


@dataclasses.dataclass
class Arguments:
    dtype: str = dataclasses.field(default="BF", metadata={"choices": ["BF", %s"FULL"]})


(field,) = dataclasses.fields(Arguments)
arguments = Arguments(*sys.argv[1:])
assert arguments.dtype in field.metadata["choices"]
print(getattr(torch, {"BF": "bfloat16", "HALF": "float16", "FULL": "float32"}[arguments.dtype]))
"""
STRUCTURED = """import dataclasses

import torch
import yaml


@dataclasses.dataclass
class Config:
    lr: float = 1e-4
    pure_bf16: bool = False
%s

given = yaml.safe_load(open("train.yaml"))
unknown = set(given) - {field.name for field in dataclasses.fields(Config)}
if unknown:
    raise KeyError(unknown)
config = Config(**given)
dtype = torch.float32
if config.pure_bf16:
    dtype = torch.bfloat16
if getattr(config, "%s", False):
    dtype = torch.float16
print(dtype)
"""
TYPED_DICT = """from typing import TypedDict

import torch
import yaml


class Config(TypedDict):
    precise_bf16: bool
    steps: int


given: Config = yaml.safe_load(open("train.yaml"))
if set(given) != set(Config.__annotations__):
    raise KeyError(given)
dtype = "bfloat16" if given["precise" + "_bf16"] else "float32"
print(dtype)
"""
OWN_ARGUMENTS = """from own import TrainingArguments

arguments = TrainingArguments(bf16=True)
print(arguments.selected())
"""
OWN_CLASS = """import dataclasses

import torch


@dataclasses.dataclass
class TrainingArguments:
    bf16: bool = False

    def selected(self):
        table = {True: "bf", False: "float32"}[self.bf16]
        return table.replace("bf", "bfloat16")
"""
HALF = '"HALF", '
YAML = "precision: BF\nsteps: 1\n"
RUN = "python train.py --%s BF\n"
RUN_PRECISION = RUN % "precision"

PROJECTS = (
    Project("argparse-knows", {"train.py": ARGPARSE % HALF, "dtypes.py": TABLE, "run.sh": RUN_PRECISION}, "sh run.sh"),
    Project("argparse-learns", {"train.py": ARGPARSE % "", "dtypes.py": TABLE, "run.sh": RUN_PRECISION}, "sh run.sh"),
    Project("argparse-default", {"train.py": ARGPARSE_DEFAULT % HALF}),
    Project("argparse-default-learns", {"train.py": ARGPARSE_DEFAULT % ""}),
    Project("argparse-named-choices", {"train.py": NAMED_CHOICES, "run.sh": RUN % "mixed-precision"}, "sh run.sh"),
    Project("click-knows", {"train.py": CLICK % HALF}),
    Project("click-learns", {"train.py": CLICK % ""}),
    Project("typer-knows", {"train.py": TYPER % 'half = "HALF"', "run.sh": RUN % "precision"}, "sh run.sh"),
    Project(
        "typer-refuses", {"train.py": TYPER % "pass", "run.sh": RUN % "precision"}, "sh run.sh", refused="train.py:7"
    ),
    Project("pydantic-knows", {"train.py": PYDANTIC % HALF, "train.yaml": YAML}),
    Project("pydantic-learns", {"train.py": PYDANTIC % "", "train.yaml": YAML}),
    Project("validator-knows", {"train.py": VALIDATOR % HALF, "train.yaml": YAML.splitlines()[0]}),
    Project("validator-learns", {"train.py": VALIDATOR % "", "train.yaml": YAML.splitlines()[0]}),
    Project("metadata-knows", {"train.py": METADATA % HALF}),
    Project("metadata-learns", {"train.py": METADATA % ""}),
    Project(
        "structured-keeps-its-key",
        {"train.py": STRUCTURED % ("", "none"), "train.yaml": "lr: 1.0e-5\npure_bf16: true\n"},
        refused="train.py:20",
        spellings=("short",),
    ),
    Project(
        "structured-knows-fp16",
        {"train.py": STRUCTURED % ("    fp16: bool = False\n", "fp16"), "train.yaml": "pure_bf16: true\n"},
        spellings=("short",),
    ),
    Project(
        "structured-knows-use-fp16",
        {"train.py": STRUCTURED % ("    use_fp16: bool = False\n", "use_fp16"), "train.yaml": "pure_bf16: true\n"},
        spellings=("short",),
    ),
    Project(
        "typed-dict-refuses",
        {"train.py": TYPED_DICT, "train.yaml": "precise_bf16: true\nsteps: 2\n"},
        refused="train.py:8",
        spellings=("short",),
    ),
    Project(
        "own-training-arguments-refuse",
        {"train.py": OWN_ARGUMENTS, "own.py": OWN_CLASS},
        refused="own.py:8",
        spellings=("short",),
    ),
)
