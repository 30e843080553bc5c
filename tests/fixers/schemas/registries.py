"""Projects that check or look up their precision: asserts, sets, registries, enumerations, switches."""

from __future__ import annotations

from tests.fixers.schemas.project import CONFIG, YAML, Project, configured

ASSERT = """import torch

from config import config

assert config["precision"] in ("BF", "%s"), "unknown precision"
dtype = {"BF": torch.bfloat16, "%s": torch.%s}[config["precision"]]
print(dtype)
"""
ASSERT_ALONE = """import torch

from config import config

assert config["precision"] == "BF"
print(torch.bfloat16 if config["precision"] == "BF" else torch.float16)
"""
MEMBERSHIP = """import torch

from config import config

KNOWN = {"BF", "FULL"}
if config["precision"].lower() not in KNOWN:
    raise SystemExit("unknown precision")
print(getattr(torch, {"BF": "bfloat16", "HALF": "float16"}.get(config["precision"], "float32")))
"""
REGISTRY = """import torch

from config import config

PRECISIONS = {}


def register(name):
    def inner(function):
        PRECISIONS[name] = function
        return function

    return inner


@register("BF")
def low():
    return torch.bfloat16


@register("%s")
def other():
    return torch.%s


print(PRECISIONS[config["precision"]]())
"""
ENUM = """from enum import Enum

import torch

from config import config


class Precision(Enum):
    LOW = "BF"
    %s = "%s"


chosen = Precision(config["precision"])
print(torch.bfloat16 if chosen is Precision.LOW else torch.%s)
"""
GETATTR = """import torch

from config import config

print(getattr(torch, config["precision"]))
"""
LIGHTNING = """import torch

from config import config

if config["precision"] == "bf16-mixed":
    dtype = torch.bfloat16
elif config["precision"] == "%s":
    dtype = torch.float16
elif config["precision"] == "32":
    dtype = torch.float32
else:
    raise ValueError(config["precision"])
print(dtype)
"""
DEFAULT = """import torch

DTYPES = {"BF": torch.bfloat16, "half": torch.float16}


def main(precision="BF"):
    print(DTYPES[precision])


main()
"""
POLICY = """import torch

from config import config


class Engine:
    def __init__(self):
        self.mixed_precision = config["precision"]

    def policy(self):
        if self.mixed_precision == "BF":
            param_dtype = torch.bfloat16
            reduce_dtype = torch.float32
        elif self.mixed_precision == "FULL":
            param_dtype = torch.float32
            reduce_dtype = torch.float32
        return param_dtype, reduce_dtype


print(Engine().policy()[0].strip("(),'"))
"""
SWITCH = """from config import config


def selected(bf16=False, fp16=False):
    return "bfloat16" if bf16 else "float16" if fp16 else "float32"


print(selected(bf16=config["precision"] == "BF"%s))
"""

PROJECTS = (
    configured("assert-knows", ASSERT % ("HALF", "HALF", "float16")),
    configured("assert-learns", ASSERT % ("FULL", "FULL", "float32")),
    configured("assert-refuses", ASSERT_ALONE, refused="train.py:5"),
    configured("membership-learns", MEMBERSHIP),
    configured("registry-knows", REGISTRY % ("HALF", "float16")),
    configured("registry-refuses", REGISTRY % ("FULL", "float32"), refused="train.py:16"),
    configured("enum-knows", ENUM % ("HIGH", "HALF", "float16")),
    configured("enum-refuses", ENUM % ("HIGH", "FULL", "float32"), refused="train.py:8"),
    Project(
        "getattr-knows",
        {"train.py": GETATTR, "config.py": CONFIG, "conf/train.yaml": YAML.replace("BF", "bfloat16")},
        spellings=("long",),
    ),
    *(
        Project(
            f"lightning-knows-{word}",
            {"train.py": LIGHTNING % word, "config.py": CONFIG, "conf/train.yaml": YAML.replace("BF", "bf16-mixed")},
            spellings=("short",),
        )
        for word in ("16-mixed", "fp16-mixed")
    ),
    configured("policy-without-else-refuses", POLICY, refused="train.py:11"),
    configured("switch-refuses", SWITCH % "", refused="train.py:8"),
    configured("switch-knows", SWITCH % ', fp16=config["precision"] == "HALF"'),
    Project("default-knows-half", {"train.py": DEFAULT}),
)
