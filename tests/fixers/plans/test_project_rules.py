"""Changes that depend on what else the project does: each rule with code that it leaves and code that it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

LOAD = """from transformers import AutoModel

model = AutoModel.from_pretrained(name, attn_implementation="flash_attention_2", torch_dtype="float32")
"""
CAUSAL = LOAD + "for layer in model.layers:\n    layer.self_attn.is_causal = {value}\n"
OWN_FLAG = LOAD + "\n\nclass Attention:\n    def __init__(self):\n        self.is_causal = False\n"
PATCH = """import transformers.models.llama.modeling_llama as llama

llama.LlamaFlashAttention2.forward = forward
"""
ASSERT = PATCH.replace(
    "llama.LlamaFlashAttention2.forward = forward", "assert isinstance(a, llama.LlamaFlashAttention2)"
)
BOTH = PATCH + "llama.LlamaSdpaAttention.forward = other\n"
TESTED = PATCH.replace(
    "llama.LlamaFlashAttention2.forward = forward", "is_flash = isinstance(a, llama.LlamaFlashAttention2)"
)

TRAIN = """import torch
from accelerate import Accelerator
from accelerate.utils import DummyOptim
from transformers import AutoModel

accelerator = Accelerator(mixed_precision="fp16")
model = AutoModel.from_pretrained(name, torch_dtype=torch.float16)
optimizer = {optimizer}
model, optimizer = accelerator.prepare(model, optimizer)
"""
PLAIN = TRAIN.format(optimizer="torch.optim.AdamW(model.parameters(), lr=1e-4)")
DUMMY = TRAIN.format(optimizer="DummyOptim(model.parameters(), lr=1e-4)")
DEEPSPEED = "from deepspeed import initialize\n" + PLAIN

FABRIC = """import torch
import lightning as L

fabric = L.Fabric(precision="16-mixed")
model = Net().half()
model = fabric.setup_module(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
"""
CAST = """for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
"""
TRUE = """import lightning as L

fabric = L.Fabric(precision="bf16-true")
with fabric.init_module():
    model = Net()
optimizer.step()
fabric.backward(loss)
"""


def _plan(root: Path, **files: str) -> Plan:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return plan_offers(Site(DiskTree(root), gpu=TITAN_RTX))


def _after(plan: Plan, path: str) -> str | None:
    changes = (change for change in plan.changes if isinstance(change, FileChange))
    return next((change.after.decode() for change in changes if change.path == path), None)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"train__py": CAUSAL.format(value="False")}, "is_causal"),
        ({"train__py": LOAD, "patch__py": PATCH}, "class of FlashAttention"),
        ({"train__py": LOAD, "patch__py": ASSERT}, "class of FlashAttention"),
    ],
)
def test_flash_attention_stays_where_the_project_depends_on_it(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    plan = _plan(tmp_path, **files)
    assert _after(plan, "train.py") is None
    assert any(reason in finding.message for finding in plan.findings)


@pytest.mark.parametrize(
    "files",
    [
        {"train__py": CAUSAL.format(value="True")},
        {"train__py": OWN_FLAG},
        {"train__py": LOAD, "other__py": CAUSAL.format(value="False")},
        {"train__py": LOAD, "patch__py": BOTH},
        {"train__py": LOAD, "patch__py": TESTED},
    ],
)
def test_flash_attention_goes_where_the_project_works_without_it(tmp_path: Path, files: dict[str, str]) -> None:
    assert 'attn_implementation="sdpa"' in (_after(_plan(tmp_path, **files), "train.py") or "")


@pytest.mark.parametrize(("text", "casts"), [(PLAIN, True), (DUMMY, False), (DEEPSPEED, False)])
def test_parameters_that_deepspeed_keeps_in_float32_are_not_cast(tmp_path: Path, text: str, casts: bool) -> None:
    assert ((_after(_plan(tmp_path, train__py=text), "train.py") or "").count(CAST) == 1) is casts


def test_a_model_is_cast_before_fabric_wraps_it(tmp_path: Path) -> None:
    after = FABRIC.replace("model = fabric", CAST + "model = fabric")
    assert _after(_plan(tmp_path, train__py=FABRIC), "train.py") == after


def test_a_model_that_fabric_shards_is_reported(tmp_path: Path) -> None:
    sharded = FABRIC.replace('"16-mixed"', '"16-mixed", strategy=FSDPStrategy()')
    plan = _plan(tmp_path, train__py=sharded)
    assert _after(plan, "train.py") is None
    assert any("FSDP shards the model here" in each.message for each in plan.findings)


@pytest.mark.parametrize(
    ("text", "warned"), [(TRUE, True), (TRUE.replace("with fabric.init_module", "if ready"), False)]
)
def test_the_memory_of_16_mixed_is_reported_where_fabric_creates_the_model(
    tmp_path: Path, text: str, warned: bool
) -> None:
    plan = _plan(tmp_path, train__py=text)
    assert '"16-mixed"' in (_after(plan, "train.py") or "")
    assert any("twice the memory" in each.message for each in plan.findings) is warned


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ('{"output_dir": "out", "bf16": true}', '{"output_dir": "out", "fp16": true}'),
        ('{"model_type": "llama", "bf16": true}', None),
        ('{"architectures": ["Net"], "bf16": true}', None),
    ],
)
def test_a_config_json_of_training_arguments_is_no_checkpoint(tmp_path: Path, text: str, after: str | None) -> None:
    assert _after(_plan(tmp_path, config__json=text), "config.json") == after


ASSERTED = (
    "import torch\n\n\ndef pack(scales):\n    scales = scales.to(torch.bfloat16)\n    {line}\n    return scales\n"
)


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("assert scales.dtype == torch.bfloat16", False),
        ("torch.ops.aten._weight_int4pack_mm(x, scales, 32, zeros)", False),
        ("assert zeros.dtype == torch.bfloat16", True),
        ("assert scales.dtype == torch.float16", True),
    ],
)
def test_a_value_that_must_be_bfloat16_stays(tmp_path: Path, line: str, changed: bool) -> None:
    plan = _plan(tmp_path, train__py=ASSERTED.format(line=line))
    assert (_after(plan, "train.py") is not None) is changed
    assert bool(plan.skipped) is not changed


NEW_TRL = "trl==0.16.0\ntransformers==4.48.0\n"
SFT = """from trl import SFTTrainer

trainer = SFTTrainer(model, tokenizer=tokenizer{more})
"""


@pytest.mark.parametrize(
    ("more", "pins", "renamed"),
    [
        ("", NEW_TRL, True),
        ("", "", False),
        (", args=args", NEW_TRL, True),
        (", args=args", NEW_TRL.replace("0.16.0", "0.8.6"), False),
        (", args=args", NEW_TRL.replace("0.16.0", "0.12.0"), False),
        (', dataset_text_field="text"', NEW_TRL, False),
        (", packing=False, max_seq_length=4096", NEW_TRL, False),
    ],
)
def test_the_argument_tokenizer_is_renamed_only_if_the_whole_call_is_then_valid(
    tmp_path: Path, more: str, pins: str, renamed: bool
) -> None:
    plan = _plan(tmp_path, train__py=SFT.format(more=more), requirements__txt=pins)
    assert ("processing_class=" in (_after(plan, "train.py") or "")) is renamed
    assert any("older TRL" in each.message for each in plan.findings) is ("=" in more and "args" not in more)


MERGE = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--precision", default="bf16")


def main(args):
    if args.precision == "bf16":
        print(args)
    {line}


if __name__ == "__main__":
    main(parser.parse_args())
"""


@pytest.mark.parametrize(("line", "changed"), [("merge(args)", False), ("train(args)", True)])
def test_a_script_that_only_merges_adapters_stays(tmp_path: Path, line: str, changed: bool) -> None:
    assert (_after(_plan(tmp_path, merge_lora__py=MERGE.format(line=line)), "merge_lora.py") is not None) is changed
