"""Projects that read their precision in branches: if ladders, match, tables."""

from __future__ import annotations

from tests.fixers.schemas.project import configured

LADDER = """import torch

from config import config

if config["precision"] == "BF":
    dtype = torch.bfloat16
elif config["precision"] == "%s":
    dtype = torch.%s
else:
    raise ValueError(config["precision"])
print(dtype)
"""
RETURNS = """import torch

from config import config


def dtype_of(name):
    if name == "BF":
        return torch.bfloat16
    if name == "FULL":
        return torch.float32
    raise ValueError(name)


print(dtype_of(config["precision"]))
"""
LONG_LADDER = """import torch

from config import config

scaler = None
if config["precision"] == "BF":
    dtype = torch.bfloat16
    scaler = "none"
elif config["precision"] == "FULL":
    dtype = torch.float32
else:
    raise ValueError(config["precision"])
print(dtype)
"""
SILENT = """import torch

from config import config

dtype = torch.bfloat16 if config["precision"] == "BF" else torch.float32
print(dtype)
"""
MATCH = """import torch

from config import config

match config["precision"]:
    case "BF":
        dtype = torch.bfloat16
    case "%s":
        dtype = torch.%s
    case other:
        raise ValueError(other)
print(dtype)
"""
TABLE = """import torch

from config import config

DTYPES = {
    "BF": torch.bfloat16,
    "%s": torch.%s,
}
print(DTYPES[config["precision"]])
"""
CALLED_TABLE = """import torch

from config import config

print(dict(FULL=torch.float32, %sBF=torch.bfloat16)[config["precision"]])
"""
NAMED_TABLE = """import torch

from config import config

DTYPES = dict(
    BF=torch.bfloat16,
    FULL=torch.float32,
)


def dtype_of(settings):
    return DTYPES.get(settings["precision"], torch.float32)


print(dtype_of(config))
"""
GET = """import torch

from config import config

print({"BF": torch.bfloat16, "half": torch.float16}.get(config["precision"], torch.float32))
"""
CALLS = """from config import config


def low():
    return "bfloat16"


def full():
    return "float32"


MAKERS = {"BF": low, "FULL": full}
print(MAKERS[config["precision"]]())
"""

PROJECTS = (
    configured("ladder-knows", LADDER % ("HALF", "float16")),
    configured("ladder-knows-half", LADDER % ("half", "float16")),
    configured("ladder-learns", LADDER % ("FULL", "float32")),
    configured("returns-learn", RETURNS),
    configured("long-ladder-refuses", LONG_LADDER, refused="train.py:6"),
    configured("silent-fallback-learns", SILENT),
    configured("match-knows", MATCH % ("HALF", "float16")),
    configured("match-learns", MATCH % ("FULL", "float32")),
    configured("table-knows", TABLE % ("HALF", "float16")),
    configured("table-knows-half", TABLE % ("half", "float16")),
    configured("table-learns", TABLE % ("FULL", "float32")),
    configured("get-knows-half", GET),
    configured("dict-call-knows", CALLED_TABLE % "HALF=torch.float16, "),
    configured("dict-call-learns", CALLED_TABLE % ""),
    configured("named-dict-call-learns", NAMED_TABLE),
    configured("table-of-functions-refuses", CALLS, refused="train.py:12"),
)
