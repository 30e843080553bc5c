"""A switch of FlashAttention stays on where the edited code selects another attention for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import changed, planned

TRAINER = """import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

{arguments}
model_args, args = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("base", torch_dtype=torch.float32, {attention})
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
CHOICE = 'attn_implementation="flash_attention_2" if model_args.use_flash_attn else None'
PASSED = "use_flash_attention_2=model_args.use_flash_attn"
OFF = "class Arguments:\n    use_flash_attn: bool = False\n"
ON = "class Arguments:\n    use_flash_attn: bool = field(default=True)\n"
LAUNCH = "python train.py --bf16 True --use_flash_attn True\n"
CONFIG = "output_dir: out\nbf16: true\nuse_flash_attn: true\n"


@pytest.mark.parametrize(
    ("path", "text", "arguments"),
    [("run.sh", LAUNCH, OFF), ("train.yaml", CONFIG, OFF), ("train.py", "", ON)],
    ids=["command", "config", "default"],
)
def test_a_switch_stays_where_the_code_selects_another_attention_for_it(
    tmp_path: Path, path: str, text: str, arguments: str
) -> None:
    code = TRAINER.format(arguments=arguments, attention=CHOICE)
    plan = planned(tmp_path, {path: text, "run.sh": LAUNCH, "train.py": code})
    assert '"sdpa" if model_args.use_flash_attn else None' in changed(plan)["train.py"]
    assert changed(plan)["run.sh"] == LAUNCH.replace("bf16", "fp16")
    assert path != "train.yaml" or changed(plan)[path] == CONFIG.replace("bf16", "fp16")
    assert arguments in changed(plan)["train.py"]
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).empty


@pytest.mark.parametrize(
    ("attention", "more"),
    [
        (PASSED, ""),
        (f"{CHOICE}, {PASSED}", ""),
        (CHOICE, "\nif model_args.use_flash_attn:\n    patch(model)\n"),
        (CHOICE.replace("None", '"eager"'), ""),
        (CHOICE, '\npatch(getattr(model_args, "use_flash_attn"))\n'),
    ],
    ids=["an argument", "both", "a branch", "another attention if it is off", "by its name"],
)
def test_a_switch_is_turned_off_where_other_code_reads_it(tmp_path: Path, attention: str, more: str) -> None:
    code = TRAINER.format(arguments=OFF, attention=attention) + more
    plan = planned(tmp_path, {"run.sh": LAUNCH, "train.py": code})
    assert changed(plan)["run.sh"] == "python train.py --fp16 True --use_flash_attn False\n"


FIELD = "class Arguments:\n    {more}attn_implementation: str = {default}\n"
DEFAULT = '"flash_attention_2"'
READ = "attn_implementation=model_args.attn_implementation"


@pytest.mark.parametrize(
    ("default", "more"),
    [(DEFAULT, ""), (f"field(default={DEFAULT}, metadata={{'help': 'attention'}})", "bits: int = 16\n    ")],
    ids=["a value", "a field"],
)
def test_a_field_that_no_code_reads_keeps_its_default(tmp_path: Path, default: str, more: str) -> None:
    code = TRAINER.format(arguments=FIELD.format(default=default, more=more), attention="low_cpu_mem_usage=True")
    assert "flash_attention_2" in changed(planned(tmp_path, {"train.py": code})).get("train.py", code)
    derived = code.replace("class Arguments:", "class Arguments(TrainingArguments):")
    assert "flash_attention_2" in changed(planned(tmp_path, {"train.py": derived})).get("train.py", code)


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": TRAINER.format(arguments=FIELD.format(default=DEFAULT, more=""), attention=READ)},
        {"train.py": TRAINER.format(arguments=FIELD.format(default=DEFAULT, more=""), attention="**vars(model_args)")},
        {
            "train.py": TRAINER.format(
                arguments=FIELD.format(default=DEFAULT, more="").replace("Arguments:", "Arguments(Base):"), attention=""
            )
        },
        {
            "train.py": "from settings import Arguments\n" + TRAINER.format(arguments="", attention=READ),
            "settings.py": FIELD.format(default=DEFAULT, more=""),
        },
    ],
    ids=["an argument", "all fields", "a base class", "another file"],
)
def test_a_field_that_code_reads_gets_another_default(tmp_path: Path, files: dict[str, str]) -> None:
    after = changed(planned(tmp_path, files))
    assert all("flash_attention_2" not in after.get(path, text) for path, text in files.items())


SWITCHES = {
    "a field": (ON, PASSED, "--use_flash_attn False"),
    "an option": (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--use-flash-attn', type=str2bool, default=True)\n",
        PASSED,
        "--use-flash-attn True",
    ),
    "a word": (FIELD.format(default=DEFAULT, more=""), READ, "--attn-implementation sdpa"),
}


@pytest.mark.parametrize(("arguments", "attention", "option"), SWITCHES.values(), ids=SWITCHES)
def test_a_default_stays_if_every_command_and_document_passes_the_option(
    tmp_path: Path, arguments: str, attention: str, option: str
) -> None:
    files = {"train.py": TRAINER.format(arguments=arguments, attention=attention)}
    files |= {"run.sh": f"python train.py --bf16 {option}\n", "README.md": f"    python train.py --fp16 {option}\n"}
    assert arguments in changed(planned(tmp_path / "every", files)).get("train.py", files["train.py"])
    other = files | {"README.md": "    python train.py --fp16 --output_dir out\n"}
    assert arguments not in changed(planned(tmp_path / "one", other))["train.py"]
