"""What stays because of how the project's own code attends, scales its loss or copies its settings."""

from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX

SWITCH = "class Block:\n    def __init__(self, flash_attn=True):\n        self.flash = flash_attn\n"
OWN_ATTENTION = (
    "import torch.nn.functional as F\n\n\ndef attend(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)\n"
)
KERNEL = "from flash_attn import flash_attn_func\n"
MASTER = """def before_step(params, dtype):
    for p in params:
        p.data = p.master
        p.grad = p.grad.to(dtype)
"""
FIELDS = """from dataclasses import dataclass


@dataclass
class ShardConfig:
    use_fp16: bool = False
    pure_bf16: bool = False
"""
COPIES = "def main(shard_config, train_config):\n    shard_config.use_fp16 = train_config.use_fp16\n"
COMMAND = "python train.py ++shard_config.pure_bf16=true\n"
CASTS = "import torch\n\n\ndef read(x):\n    return x.to(torch.bfloat16)\n"
DATA = "@dataclass\nclass DataConfig:\n    bf16: bool = True\n"


def planned(root: Path, files: dict[str, str]) -> Plan:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    return plan_fixes(Site(DiskTree(root), gpu=TITAN_RTX))


def changed(plan: Plan) -> dict[str, str]:
    return {each.path: each.after.decode() for each in plan.changes if isinstance(each, FileChange)}


def warned(plan: Plan) -> str:
    return "\n".join(f"{each.where} {each.message}" for each in plan.findings)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("model.py", SWITCH),
        ("conf/model.yaml", "flash_attn: true\n"),
        ("run.sh", "python train.py --use_flash_attn True\n"),
        ("run.sh", "USE_FLASH_ATTN=1 python train.py\n"),
    ],
)
def test_a_switch_that_selects_pytorchs_own_attention_stays(tmp_path, path, text):
    assert changed(planned(tmp_path / "own", {path: text, "attend.py": OWN_ATTENTION})) == {}
    assert path in changed(planned(tmp_path / "kernel", {path: text, "attend.py": OWN_ATTENTION + KERNEL}))
    assert path in changed(planned(tmp_path / "unknown", {path: text}))


def test_a_named_implementation_is_replaced_in_any_project(tmp_path):
    files = {"conf/model.yaml": "attn_implementation: flash_attention_2\n", "attend.py": OWN_ATTENTION}
    assert changed(planned(tmp_path, files)) == {"conf/model.yaml": "attn_implementation: sdpa\n"}


def test_master_weights_without_a_loss_scale_keep_bfloat16_and_are_named(tmp_path):
    files = {"loop.py": MASTER, "args.py": 'param_dtype: str = "bfloat16"\n', "run.sh": "train --dtype bfloat16\n"}
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    assert "loop.py bfloat16 stays: this loop keeps float32 master weights" in warned(plan)


@pytest.mark.parametrize("line", ["scaler = torch.amp.GradScaler()", "accelerator = Accelerator()"])
def test_master_weights_with_a_loss_scale_get_float16(tmp_path, line):
    files = {"loop.py": MASTER, "train.py": line + "\n", "args.py": 'param_dtype: str = "bfloat16"\n'}
    plan = planned(tmp_path, files)
    assert changed(plan) == {"args.py": 'param_dtype: str = "float16"\n'}
    assert "master" not in warned(plan)


def test_a_switch_stays_if_a_line_overwrites_its_counterpart(tmp_path):
    plan = planned(tmp_path, {"settings.py": FIELDS, "main.py": COPIES, "run.sh": COMMAND})
    assert changed(plan) == {}
    assert "run.sh:1 ++shard_config.pure_bf16 stays: main.py:2 overwrites use_fp16" in warned(plan)


def test_a_switch_of_another_object_is_replaced(tmp_path):
    command = COMMAND.replace("shard_config", "train_config")
    plan = planned(tmp_path, {"settings.py": FIELDS, "main.py": COPIES, "run.sh": command})
    assert changed(plan) == {"run.sh": "python train.py ++train_config.use_fp16=true\n"}


def test_a_key_of_a_config_stays_if_a_line_overwrites_its_counterpart(tmp_path):
    text = "shard_config:\n  pure_bf16: true\n"
    files = {"settings.py": FIELDS, "main.py": COPIES, "conf/a.yaml": text}
    assert changed(planned(tmp_path / "a", files)) == {}
    del files["main.py"]
    assert changed(planned(tmp_path / "b", files)) == {"conf/a.yaml": text.replace("pure_bf16", "use_fp16")}


def test_code_beside_commands_that_stay_pure_bfloat16_keeps_it(tmp_path):
    files = {
        "settings.py": FIELDS,
        "main.py": COPIES,
        "a/scripts/run.sh": COMMAND,
        "a/data.py": CASTS,
        "b/data.py": CASTS,
    }
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == {"b/data.py"}
    assert any(each.where == "a/data.py" and "pure_bf16" in each.reason for each in plan.skipped)


def test_code_that_is_imported_beside_such_commands_keeps_it_too(tmp_path):
    files = {
        "settings.py": FIELDS,
        "main.py": COPIES,
        "a/scripts/run.sh": COMMAND,
        "a/train.py": "from lib.models.model import load\n",
        "lib/models/model.py": "def load():\n    from lib.models.encoder import read\n",
        "lib/models/encoder.py": CASTS,
        "lib/models/other.py": CASTS,
        "b/encoder.py": CASTS,
    }
    assert set(changed(planned(tmp_path, files))) == {"lib/models/other.py", "b/encoder.py"}


def test_a_branch_of_pure_bfloat16_stays(tmp_path):
    code = "import torch\n\nif args.shard and cfg.pure_bf16:\n    model.to(torch.bfloat16)\n"
    other = code.replace("pure_bf16", "low_memory")
    assert changed(planned(tmp_path, {"pure.py": code, "other.py": other})) == {
        "other.py": other.replace("bfloat16", "float16")
    }


def test_a_key_that_the_class_of_settings_does_not_declare_is_not_written(tmp_path):
    code = 'config["bf16"] = True\n'
    plan = planned(tmp_path / "a", {"settings.py": FIELDS + "\n\n" + DATA, "run.py": code})
    assert "run.py" not in changed(plan)
    assert "DataConfig" in warned(plan)
    both = DATA + "    fp16: bool = False\n"
    assert "run.py" in changed(planned(tmp_path / "b", {"settings.py": FIELDS + "\n\n" + both, "run.py": code}))


MANUAL = """import lightning as L
import torch


class Codec(L.LightningModule):
    def __init__(self):
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        self.manual_backward(self.loss(batch))
        self.clip_gradients(optimizer, gradient_clip_val=1.0)
        optimizer.step()
"""
GROUP = """class MultiOptimizer:
    def __init__(self, optimizers):
        self.optimizers = optimizers

    def step(self, key):
        self.optimizers[key].step()


def build_optimizer(groups):
    return MultiOptimizer(groups)
"""
PREPARES = """from accelerate import Accelerator
from optimizers import build_optimizer

accelerator = Accelerator()
optimizer = build_optimizer(groups)
optimizer = accelerator.prepare(optimizer)
accelerator.backward(loss)
"""


def test_manual_clipping_of_lightning_is_reported_in_mixed_precision(tmp_path):
    files = {"codec.py": MANUAL, "conf.yaml": "train:\n  precision: 16-mixed\n"}
    assert "codec.py:12 the gradients are clipped before they are unscaled" in warned(planned(tmp_path / "a", files))
    torch_clips = MANUAL.replace("self.clip_gradients(optimizer,", "torch.nn.utils.clip_grad_norm_(self.parameters(),")
    assert "codec.py:12 the gradients" in warned(planned(tmp_path / "b", files | {"codec.py": torch_clips}))
    by_lightning = MANUAL.replace("        self.automatic_optimization = False", "        pass")
    assert "clipped" not in warned(planned(tmp_path / "c", files | {"codec.py": by_lightning}))
    full = {"conf.yaml": "train:\n  precision: 32\n"}
    assert "clipped" not in warned(planned(tmp_path / "d", files | full))
    unscaled = MANUAL.replace("        self.clip", "        self.scaler.unscale_(optimizer)\n        self.clip")
    assert "clipped" not in warned(planned(tmp_path / "e", files | {"codec.py": unscaled}))


def test_a_group_of_optimizers_that_accelerate_does_not_prepare_is_reported(tmp_path):
    files = {"optimizers.py": GROUP, "train.py": PREPARES}
    assert "train.py:6 accelerate returns `optimizer` of build_optimizer() unprepared" in warned(
        planned(tmp_path / "a", files)
    )
    derived = GROUP.replace("MultiOptimizer:", "MultiOptimizer(torch.optim.Optimizer):")
    assert "unprepared" not in warned(planned(tmp_path / "b", files | {"optimizers.py": derived}))
    each = PREPARES.replace("accelerator.prepare(optimizer)", "accelerator.prepare(optimizer.optimizers)")
    assert "unprepared" not in warned(planned(tmp_path / "c", files | {"train.py": each}))


def test_a_munch_of_models_that_accelerate_does_not_prepare_is_reported(tmp_path):
    models = "from munch import Munch\n\n\ndef build_model(a, b):\n    nets = Munch(a=a, b=b)\n    return nets\n"
    train = PREPARES.replace("build_optimizer(groups)", "build_model(a, b)")
    found = warned(planned(tmp_path / "a", {"models.py": models, "train.py": train}))
    assert "train.py:6 accelerate returns `optimizer` of build_model() unprepared" in found
    module = models.replace("Munch(a=a, b=b)", "Nets(a, b)")
    assert "unprepared" not in warned(planned(tmp_path / "b", {"models.py": module, "train.py": train}))


ENGINE = """import torch


def step(args, samples):
    if args.bf16:
        samples = samples.to(dtype=torch.bfloat16)
    else:
        samples = samples.half()
    return samples
"""
OPTION = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true")
"""
BLOCKS = """def config(args):
    return {
        "fp16": {"enabled": not args.bf16, "loss_scale": 0},
        "bf16": {"enabled": args.bf16},
    }
"""
CHOICE = "import torch\n\n\ndef dtype_of(args):\n    return torch.bfloat16 if args.bf16 else torch.float16\n"


@pytest.mark.parametrize("text", [ENGINE, BLOCKS, CHOICE])
def test_a_switch_that_selects_float16_when_it_is_off_is_unchanged_and_gets_no_second_name(tmp_path, text):
    files = {"engine.py": text, "main.py": OPTION, "run.sh": "python main.py --bf16\n"}
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    assert "run.sh:1 --bf16 stays: without it, engine.py:" in warned(plan)


@pytest.mark.parametrize(
    "reads",
    [
        "import transformers\n\n(args,) = transformers.HfArgumentParser(Arguments).parse_args_into_dataclasses()\n",
        "if args.fp16:\n    scaler = make_scaler()\n",
    ],
)
def test_a_switch_beside_an_fp16_switch_is_replaced(tmp_path, reads):
    files = {"engine.py": CHOICE + reads, "run.sh": "python main.py --bf16 True\n"}
    assert changed(planned(tmp_path, files)) == {"run.sh": "python main.py --fp16 True\n"}


OWN_ARGUMENTS = """import argparse
import torch
from transformers import Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--bf16", action="store_true", default=True, help="precision")
args = parser.parse_args()
model = Model.from_pretrained(name, torch_dtype=torch.bfloat16 if args.bf16 else torch.half)
Trainer(model=model, args=TrainingArguments(output_dir="o", bf16=args.bf16, fp16=not args.bf16)).train()
"""


@pytest.mark.parametrize("trainer", [True, False])
def test_a_switch_that_is_on_by_default_selects_float16_in_weights_and_trainer(tmp_path, trainer):
    text = OWN_ARGUMENTS if trainer else OWN_ARGUMENTS.rpartition("Trainer(model")[0].replace(", TrainingArguments", "")
    after = changed(planned(tmp_path, {"train.py": text}))["train.py"]
    assert "torch.float16 if args.bf16 else torch.half" in after
    assert trainer == ("bf16=False" in after)


def test_a_config_key_that_selects_float16_when_it_is_off_is_turned_off(tmp_path):
    files = {"engine.py": CHOICE.replace("args.bf16", "cfg.bf16").replace("(args)", "(cfg)"), "a.yaml": "bf16: true\n"}
    assert changed(planned(tmp_path, files)) == {"a.yaml": "bf16: false\n"}


def test_a_switch_that_selects_float32_when_it_is_off_is_replaced(tmp_path):
    text = CHOICE.replace("float16\n", "float32\n")
    files = {"engine.py": text, "main.py": OPTION, "run.sh": "python main.py --bf16\n"}
    assert set(changed(planned(tmp_path, files))) == {"engine.py", "main.py", "run.sh"}


def test_code_that_follows_a_switch_for_bfloat16_stays(tmp_path):
    follows = (
        "def convert(args):\n    args.fp16 = False\n    if args.memory_efficient_bf16:\n        args.bf16 = True\n"
    )
    applies = """import torch


def apply_half(t):
    return t.to(dtype=torch.half)


def apply_bfloat16(t):
    return t.to(dtype=torch.bfloat16)
"""
    assert changed(planned(tmp_path / "a", {"options.py": follows, "trainer.py": applies})) == {}
    alone = {
        "options.py": follows.replace("if args.memory_efficient_bf16", "if args.fast"),
        "trainer.py": applies.replace("apply_half", "apply"),
    }
    assert set(changed(planned(tmp_path / "b", alone))) == {"options.py", "trainer.py"}


def test_a_script_that_runs_with_and_without_flash_attention_stays(tmp_path):
    script = "python speed.py --model tiny\npython speed.py --model tiny --use_flash_attn=True\n"
    plan = planned(tmp_path / "a", {"run.sh": script})
    assert changed(plan) == {} and "runs the same command without it too" in warned(plan)
    assert "run.sh" in changed(planned(tmp_path / "b", {"run.sh": script.replace("tiny\n", "base\n", 1)}))


def test_eager_attention_is_no_use_of_flash_attention(tmp_path):
    eager = OWN_ATTENTION + 'options = {}\noptions["attn_implementation"] = "eager"\n'
    assert changed(planned(tmp_path / "a", {"model.py": SWITCH, "attend.py": eager})) == {}
    flash = eager.replace('"eager"', "args.attention")
    assert "model.py" in changed(planned(tmp_path / "b", {"model.py": SWITCH, "attend.py": flash}))


COPY = {
    "vendor/transformers-main/setup.py": "",
    "vendor/transformers-main/src/transformers/__init__.py": "",
    "vendor/transformers-main/src/transformers/trainer.py": CASTS.replace("x.to(torch.bfloat16)", "torch.bfloat16"),
    "vendor/transformers-main/examples/run.py": CASTS,
    "train.py": CASTS,
}


def test_a_file_of_a_copy_that_the_project_has_edited_is_changed(tmp_path):
    edited = COPY | {"vendor/transformers-main/src/transformers/models/own.py": CASTS}
    assert set(changed(planned(tmp_path, edited))) == {
        "train.py",
        "vendor/transformers-main/src/transformers/models/own.py",
    }


def test_a_copy_of_a_library_stays(tmp_path):
    plan = planned(tmp_path, COPY)
    assert set(changed(plan)) == {"train.py"}
    assert {each.reason for each in plan.skipped} == {"copies of libraries"} and len(plan.skipped) == 2


def test_neither_the_library_itself_nor_a_package_of_the_same_name_is_a_copy(tmp_path):
    own = {path.removeprefix("vendor/transformers-main/"): text for path, text in COPY.items()}
    assert len(changed(planned(tmp_path / "own", own))) == 3
    package = {path: text for path, text in COPY.items() if not path.endswith("setup.py")}
    assert len(changed(planned(tmp_path / "package", package))) == 3


TRAINER = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(name)
Trainer(model=model, args=TrainingArguments(output_dir="out", fp16=True)).train()
"""


@pytest.mark.parametrize(
    ("requirements", "casts"),
    [
        ({"requirements.txt": "transformers==4.34.1\n"}, False),
        ({"train/requirements.txt": "transformers==4.34.1\n"}, False),
        ({"train/requirements.txt": "transformers==4.34.1\n", "app/requirements.txt": "transformers\n"}, True),
        ({"train/requirements.txt": "transformers<5\n", "app/requirements.txt": "transformers>=5.0\n"}, True),
        ({"requirements.txt": "transformers==5.1\n"}, True),
        ({}, True),
    ],
)
def test_a_model_that_an_older_transformers_loads_in_float32_is_not_cast(tmp_path, requirements, casts):
    plan = planned(tmp_path, {"train.py": TRAINER, **requirements})
    assert any("data.float()" in text for text in changed(plan).values()) == casts
    half = TRAINER.replace("(name)", '(name, torch_dtype="float16")')
    assert "data.float()" in changed(planned(tmp_path / "half", {"train.py": half, **requirements}))["train.py"]


def test_options_that_contain_themselves_are_read_once(tmp_path):
    text = """from transformers import AutoModel


def load(name, **options):
    options = {"device_map": "auto", **options}
    more = dict(options)
    more.update({**options, "torch_dtype": "auto", **more})
    return AutoModel.from_pretrained(name, **options), AutoModel.from_pretrained(name, **more)
"""
    assert "float16" in changed(planned(tmp_path, {"load.py": text}))["load.py"]
