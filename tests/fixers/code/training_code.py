"""Apply one fixer to a line of training code with its imports."""

from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.casebook import TITAN_RTX

IMPORTS = """\
import os
import torch
import torch.nn.functional as F
from torch import nn, distributed as dist
from torch.cuda.amp import GradScaler, autocast
from torch.nn.utils.rnn import pad_sequence
from torch.optim import SGD, AdamW
from transformers import AutoModel, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer
"""


def outcome(fixer, code, packages=None):
    text = IMPORTS + code
    planned = plan_file("train.py", text.encode(), [fixer], Target(TITAN_RTX, packages or {}))
    after = planned.change.after.decode() if planned.change else text
    assert after.startswith(IMPORTS)
    lines = IMPORTS.count("\n")
    findings = [(int(f.where.rpartition(":")[2]) - lines, f.message) for f in planned.findings]
    return after.removeprefix(IMPORTS), findings


STAYS = None
