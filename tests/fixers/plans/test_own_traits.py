"""What stays because of how the project's own code attends, scales its loss or copies its settings."""

import pytest

from tests.fixers.plans.project_plan import changed, planned, warned

SWITCH = (
    "class Block:\n    def __init__(self, flash_attn=True):\n        self.flash = flash_attn\n\n\nblock = Block()\n"
)
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
    assert "loop.py bfloat16 is not replaced: this loop keeps float32 master weights" in warned(plan)


@pytest.mark.parametrize("line", ["scaler = torch.amp.GradScaler()", "accelerator = Accelerator()"])
def test_master_weights_with_a_loss_scale_get_float16(tmp_path, line):
    files = {"loop.py": MASTER, "train.py": line + "\n", "args.py": 'param_dtype: str = "bfloat16"\n'}
    plan = planned(tmp_path, files)
    assert changed(plan) == {"args.py": 'param_dtype: str = "float16"\n'}
    assert "master" not in warned(plan)


def test_a_switch_stays_if_a_line_overwrites_its_counterpart(tmp_path):
    plan = planned(tmp_path, {"settings.py": FIELDS, "main.py": COPIES, "run.sh": COMMAND})
    assert changed(plan) == {}
    assert "run.sh:1 ++shard_config.pure_bf16 is not replaced: main.py:2 overwrites use_fp16" in warned(plan)


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


def test_a_script_that_runs_with_and_without_flash_attention_stays(tmp_path):
    script = "python speed.py --model tiny\npython speed.py --model tiny --use_flash_attn=True\n"
    plan = planned(tmp_path / "a", {"run.sh": script})
    assert changed(plan) == {} and "runs the same command without FlashAttention" in warned(plan)
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


OLD_NAME = "from transformers import TrainingArguments\n\nargs = TrainingArguments('out', evaluation_strategy='no')\n"


def test_arguments_keep_the_names_of_a_copy_of_the_library(tmp_path):
    own = {"train.py": OLD_NAME, "requirements.txt": "transformers\nhuggingface-hub==0.17.3\n"}
    assert "eval_strategy='no'" in changed(planned(tmp_path / "without", own))["train.py"]
    copy = COPY | {"vendor/transformers-main/src/transformers/__init__.py": '__version__ = "4.28.0.dev0"\n'}
    assert changed(planned(tmp_path / "with", copy | own)) == {}
    unknown = COPY | {"requirements.txt": "transformers<5\n", "train.py": OLD_NAME}
    assert changed(planned(tmp_path / "unknown", unknown)) == {}


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
