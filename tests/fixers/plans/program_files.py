"""Training programs as files, and the plan of their fixes."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX

TRAINER = """import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    "base", torch_dtype=torch.bfloat16, attn_implementation="flash_attention_2"
)
model = get_peft_model(model, LoraConfig())
args = TrainingArguments("out", bf16=True)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
TRL = """from peft import LoraConfig
from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer("base", args=SFTConfig("out", bf16=True), train_dataset=data, peft_config=LoraConfig())
trainer.train()
"""
LIGHTNING = """import lightning as L

trainer = L.Trainer(max_epochs=3, precision="bf16-mixed")
trainer.fit(Speech(), loader)
"""
ACCELERATE = """import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    accelerator.backward(model(batch).mean())
    optimizer.step()
"""
LOOP = """import torch

model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in loader:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PARSED = """import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file("train.yaml")
model = AutoModelForCausalLM.from_pretrained("base")
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
LAUNCH = "torchrun train.py --bf16 True --tf32 True\n"
FLASH = "flash_attention_2"
FLASH_LAUNCH = f"python train.py --bf16 True --attn_implementation {FLASH}\n"
WRITTEN = "output_dir: out\nbf16: true\n"
DEMO = (
    'import torch\n\nmodel = AutoModel.from_pretrained("base", torch_dtype=torch.bfloat16)\nprint(model.generate())\n'
)
RECIPE = """import torch
from torch.amp import GradScaler

TYPES = {{"fp16": torch.float16, "bf16": torch.bfloat16}}


class Recipe:
    def __init__(self, cfg):
        self.dtype = TYPES[cfg.dtype]
        {refusal}

    def train(self, model, loader):
        for batch in loader:
            model(batch.to(self.dtype)).mean().backward()


if __name__ == "__main__":
    Recipe(load("train.yaml")).train(model, loader)
"""
RAISES = (
    "if self.dtype == torch.float16:\n            # half weights are not trained\n            raise ValueError('fp16')"
)
ASSERTS = "assert self.dtype is not torch.float16"
SHARED = "import torch\n\nDTYPE = torch.bfloat16\n"
CONFIG = "dtype: bf16\n"
OF_ACCELERATE = "compute_environment: LOCAL\nmixed_precision: bf16\n"
KNOWS_HALF = RECIPE.format(refusal="self.epochs = 3")
FSDP = "compute_environment: LOCAL\ndistributed_type: FSDP\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 1\n"
HALF_LOOP = """import torch

for batch in loader:
    model(batch.to(torch.bfloat16)).mean().backward()
    optimizer.step()
"""
UNNAMED = """from build import load
from transformers import Trainer

Trainer(model=load(), args=args).train()
"""


def notebook(code: str) -> str:
    return f'{{"cells": [{{"cell_type": "code", "source": ["{code}"]}}]}}'


def with_output(code: str, output: str) -> str:
    cell = {"cell_type": "code", "source": code, "outputs": [{"output_type": "stream", "text": output}]}
    return json.dumps({"cells": [cell]}, indent=1)


def with_text(code: str, text: str) -> str:
    cells = [{"cell_type": "markdown", "source": text}, {"cell_type": "code", "source": code}]
    return json.dumps({"cells": cells}, indent=1)


def planned(root: Path, files: dict[str, str]) -> Plan:
    """Return the plan for the files. Fails if a second plan, for the changed files, changes something again."""
    plan = _plan(root, files)
    if plan.changes:
        with TemporaryDirectory(dir=root.parent) as folder:
            assert changed(_plan(Path(folder), files | changed(plan))) == {}, "a second plan is not empty"
    return plan


def _plan(root: Path, files: dict[str, str]) -> Plan:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))


def changed(plan: Plan) -> dict[str, str]:
    return {each.path: each.after.decode() for each in plan.changes if isinstance(each, FileChange)}
