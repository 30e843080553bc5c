"""A program that needs FlashAttention stays unchanged, with one warning; other programs are changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import FLASH, FLASH_LAUNCH, TRAINER, changed, planned

NEEDS = "this program needs FlashAttention"
DEMO = 'model = Model.from_pretrained("m", attn_implementation="flash_attention_2")\nprint(model.generate())\n'
KERNEL = "from flash_attn import flash_attn_func"
ALWAYS = {
    "an import": f"{KERNEL}\n",
    "an import of a part": "import torch\n\nimport flash_attn.bert_padding\n",
    "two versions": f"try:\n    {KERNEL}\nexcept ImportError:\n    from flash_attn.old import flash_attn_func\n",
    "an import that must succeed": f"try:\n    {KERNEL}\nexcept ImportError:\n    raise OSError('none') from None\n",
    "an import or the end": f"try:\n    {KERNEL}\nexcept ImportError:\n    print('no')\n    exit(1)\n",
    "ring attention": "from ring_flash_attn.zigzag import attend\n",
    "a patch of a library": "import patches\n\npatches.replace_llama_attn_with_flash_attn()\n",
    "a patch by its name": "from patches import llama_flash_attn_patch\n\nllama_flash_attn_patch(model)\n",
}
PERHAPS = {
    "an import that may fail": f"try:\n    {KERNEL}\nexcept ImportError:\n    flash_attn_func = None\n",
    "an import under a condition": f"if is_flash_attn_2_available():\n    {KERNEL}\n",
    "an import in a function": f"def forward_flash(x):\n    {KERNEL}\n\n    return flash_attn_func(x)\n",
    "a patch under a condition": "if args.use_flash_attn:\n    replace_llama_attn_with_flash_attn()\n",
    "the definition of a patch": "def replace_llama_attn_with_flash_attn():\n    pass\n",
    "a module of the project": "from .flash_attn import attend\n",
    "a docstring": f'"""Write this:\n\n{KERNEL}\n"""\n',
}
IN_TURN = "import attention\n"
IN_A_FUNCTION = "def fast():\n    import attention\n"


@pytest.mark.parametrize(
    ("first", "code", "stays"),
    [
        *((IN_TURN, code, True) for code in ALWAYS.values()),
        *((IN_TURN, code, False) for code in PERHAPS.values()),
        (IN_A_FUNCTION, ALWAYS["an import"], False),
        ("", ALWAYS["an import"], False),
    ],
    ids=[*ALWAYS, *PERHAPS, "a module that a function imports", "a module that nothing imports"],
)
def test_a_program_that_always_uses_kernels_of_flash_attention_stays_whole(
    tmp_path: Path, first: str, code: str, stays: bool
) -> None:
    plan = planned(tmp_path, {"train.py": first + TRAINER, "attention.py": code, "run.sh": FLASH_LAUNCH})
    assert bool(changed(plan)) is not stays
    needing = [each for each in plan.findings if each.message.startswith(NEEDS)]
    assert [each.where for each in needing] == ["train.py"] * stays
    assert all("attention.py:" in each.message for each in needing)
    if not stays:
        assert FLASH not in changed(plan)["train.py"]


LAYERS = f"""from torch import nn

try:
    {KERNEL}
except ImportError:
    print("install flash-attn for the training")


class Attention(nn.Module):
    def forward(self, q, k, v):
        return flash_attn_func(q, k, v)


class Other(nn.Module):
    def forward(self, q, k, v):
        return q
"""
FUNCTIONS = f"""import importlib.util
if importlib.util.find_spec("flash_attn"):
    {KERNEL}


def attend(q, k, v):
    return flash_attn_func(q, k, v)


def other(q, k, v):
    return q
"""


@pytest.mark.parametrize(
    ("layers", "use", "stays"),
    [
        (LAYERS, "Attention()", True),
        (LAYERS, "Other()", False),
        (FUNCTIONS, "attend(1, 2, 3)", True),
        (FUNCTIONS, "other(1, 2, 3)", False),
    ],
)
def test_a_program_that_reaches_a_call_of_a_kernel_stays_whole(
    tmp_path: Path, layers: str, use: str, stays: bool
) -> None:
    code = f"import layers\n\nlayer = layers.{use}\n{TRAINER}"
    plan = planned(tmp_path, {"train.py": code, "layers.py": layers, "run.sh": FLASH_LAUNCH})
    assert bool(changed(plan)) is not stays
    needing = [each for each in plan.findings if each.message.startswith(NEEDS)]
    assert [each.where for each in needing] == ["train.py"] * stays
    assert all("layers.py:" in each.message for each in needing)


@pytest.mark.parametrize(
    ("folder", "named"),
    [("one/scripts", "speech/train.py"), ("one/scripts/long", "speech/train.py"), ("runs", "one/speech/train.py")],
)
def test_a_command_starts_the_nearest_script_of_its_name(tmp_path: Path, folder: str, named: str) -> None:
    files = {
        "one/speech/train.py": f"import attention\n{TRAINER}",
        "one/speech/attention.py": f"{KERNEL}\n",
        "two/speech/train.py": TRAINER,
        f"{folder}/run.sh": FLASH_LAUNCH.replace("train.py", named),
        "two/scripts/run.sh": FLASH_LAUNCH.replace("train.py", "speech/train.py"),
    }
    assert set(changed(planned(tmp_path, files))) == {"two/speech/train.py", "two/scripts/run.sh"}


REQUIRING = {
    "an assert": f'assert model.config._attn_implementation == "{FLASH}"\n',
    "an assert in a branch": f'if packs:\n    assert config.attn_implementation in ("{FLASH}",), "packing"\n',
    "an error": f'if config._attn_implementation != "{FLASH}":\n    raise ValueError("no mask")\n',
    "an error for packing": f'if packs and config._attn_implementation != "{FLASH}":\n    raise ValueError("mask")\n',
    "a table of nothing else": f'LLAMA_ATTENTION_CLASSES = {{\n    "{FLASH}": Fast,\n}}\n',
}
NOT_REQUIRING = {
    "an assert of a choice": f'assert config._attn_implementation in ("sdpa", "{FLASH}")\n',
    "an error of the other side": f'if config._attn_implementation == "{FLASH}":\n    raise ValueError("no cache")\n',
    "a warning": f'if config._attn_implementation != "{FLASH}":\n    warn("slow")\n',
    "a table of names": f'ATTENTION_NAMES = {{\n    "{FLASH}": "fast",\n}}\n',
}


@pytest.mark.parametrize(
    ("code", "stays"),
    [*((code, True) for code in REQUIRING.values()), *((code, False) for code in NOT_REQUIRING.values())],
    ids=[*REQUIRING, *NOT_REQUIRING],
)
def test_a_program_that_rejects_other_attention_stays_whole_with_one_warning(
    tmp_path: Path, code: str, stays: bool
) -> None:
    plan = planned(tmp_path, {"train.py": f"import check\n{TRAINER}", "check.py": code, "run.sh": FLASH_LAUNCH})
    assert bool(changed(plan)) is not stays
    (warnings,) = ([each for each in plan.findings if "FlashAttention" in each.message],)
    assert [each.where for each in warnings] == ["train.py"] * stays
    assert all(each.message.startswith(NEEDS) and "check.py:" in each.message for each in warnings)


PACKING = {
    "positions of a list": "row['position_ids'] += list(range(len(sample)))\n",
    "positions of samples": "position_ids.extend(range(0, n))  # of this sample, from 0\n",
    "positions of a tensor": "position_ids = torch.cat([torch.arange(n, device=device) for n in lengths])\n",
    "positions that are joined": "position_ids = torch.cat(position_ids)\n",
    "a collator of a library": "collator = transformers.DataCollatorWithFlattening()\n",
}
NOT_PACKING = {
    "padding": "row['position_ids'] += list(range(last + 1, size))\n",
    "a batch": "position_ids = torch.stack(position_ids)\nposition_ids.append(torch.arange(n))\n",
    "one sample": "position_ids = torch.arange(n)\n",
    "a comment": "# position_ids += list(range(n))\n",
    "an import": "from transformers import DataCollatorWithFlattening\n",
}


@pytest.mark.parametrize(
    ("code", "stays"),
    [*((code, True) for code in PACKING.values()), *((code, False) for code in NOT_PACKING.values())],
    ids=[*PACKING, *NOT_PACKING],
)
def test_a_program_that_separates_packed_samples_by_positions_stays_whole(
    tmp_path: Path, code: str, stays: bool
) -> None:
    training = TRAINER.replace(f', attn_implementation="{FLASH}"', "")
    plan = planned(tmp_path, {"train.py": f"import data\n{training}", "data.py": code, "run.sh": FLASH_LAUNCH})
    assert bool(changed(plan)) is not stays
    (warnings,) = ([each for each in plan.findings if "FlashAttention" in each.message],)
    assert [each.where for each in warnings] == ["train.py"] * stays
    assert all(each.message.startswith(NEEDS) and "data.py:1" in each.message for each in warnings)


@pytest.mark.parametrize("code", PACKING.values(), ids=PACKING)
def test_packing_alone_keeps_no_program_in_bfloat16(tmp_path: Path, code: str) -> None:
    training = TRAINER.replace(f', attn_implementation="{FLASH}"', "")
    assert "train.py" in changed(planned(tmp_path, {"train.py": f"import data\n{training}", "data.py": code}))


@pytest.mark.parametrize("code", REQUIRING.values(), ids=REQUIRING)
def test_a_check_in_another_program_restricts_nothing(tmp_path: Path, code: str) -> None:
    plan = planned(tmp_path, {"train.py": TRAINER, "other.py": f"import check\n{TRAINER}", "check.py": code})
    assert set(changed(plan)) == {"train.py"}


def test_a_check_in_a_training_program_adds_no_warning_about_a_demo(tmp_path: Path) -> None:
    files = {"train.py": f"{REQUIRING['an assert']}{TRAINER}", "demo.py": DEMO}
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    assert [each.where for each in plan.findings if "FlashAttention" in each.message] == ["train.py"]


def test_a_file_that_a_program_without_a_chance_shares_is_changed_for_the_others(tmp_path: Path) -> None:
    files = {
        "common.py": TRAINER,
        "plain.py": "import common\nimport sys\n\nprint(sys.argv)\n",
        "flash.py": f"{KERNEL}\nimport common\nimport sys\n\nprint(sys.argv)\n",
        "plain.sh": FLASH_LAUNCH.replace("train", "plain"),
        "flash.sh": FLASH_LAUNCH.replace("train", "flash"),
    }
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == {"common.py", "plain.sh"}


CHECKED = f"{REQUIRING['an assert']}import sys\n{TRAINER.replace(FLASH, 'sdpa')}print(sys.argv)\n"
FREE = f"import sys\nimport yaml\n{TRAINER.replace(FLASH, 'sdpa')}print(sys.argv, load('shared.yaml'))\n"


def test_a_config_that_a_program_without_a_chance_shares_is_changed_for_the_others(tmp_path: Path) -> None:
    files = {
        "free.py": FREE,
        "checked.py": CHECKED.replace("sys.argv)", "load('shared.yaml'))"),
        "shared.yaml": f"learning_rate: 0.1\nattn_implementation: {FLASH}\n",
        "free.sh": "python free.py --bf16 True\n",
        "checked.sh": "python checked.py --bf16 True\n",
    }
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == {"free.py", "free.sh", "shared.yaml"}
    (warning,) = (each for each in plan.findings if each.message.startswith(NEEDS))
    assert warning.where == "checked.py"
    assert not {*changed(planned(tmp_path / "alone", {each: files[each] for each in ("checked.py", "shared.yaml")}))}


def test_a_module_beside_a_program_without_a_chance_stays_unless_another_program_uses_the_change(
    tmp_path: Path,
) -> None:
    unused = "import torch\n\n\ndef dtype():\n    return torch.bfloat16\n\n\ndef size():\n    return 3\n"
    flash = f"{KERNEL}\nfrom shared import dtype\n{TRAINER.replace('torch.bfloat16', 'dtype()')}"
    for user, changes in (("size", False), ("dtype", True)):
        free = f"from shared import {user}\n{TRAINER}print({user}())\n"
        plan = planned(tmp_path / user, {"free.py": free, "flash.py": flash, "shared.py": unused})
        assert set(changed(plan)) == {"free.py", *(["shared.py"] if changes else [])}


@pytest.mark.parametrize(
    ("check", "converted"),
    [
        ("if cfg.packs and config._attn_implementation != 'flash_attention_2':\n    raise ValueError\n", True),
        ("if cfg.packs:\n    assert config._attn_implementation == 'flash_attention_2'\n", True),
        ("if cfg.old or config._attn_implementation != 'flash_attention_2':\n    raise ValueError\n", False),
        ("assert config._attn_implementation == 'flash_attention_2'\n", False),
        ("if __name__ == '__main__':\n    assert config._attn_implementation == 'flash_attention_2'\n", False),
    ],
)
def test_a_config_stays_alone_if_the_code_requires_flash_attention_under_a_condition(
    tmp_path: Path, check: str, converted: bool
) -> None:
    files = {
        "train.py": f"{check}{TRAINER.replace(FLASH, 'sdpa')}load('packed.yaml')\n",
        "packed.yaml": f"learning_rate: 0.1\nbf16: true\nattn_implementation: {FLASH}\n",
    }
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == ({"train.py"} if converted else set())
    (warning,) = (each for each in plan.findings if "FlashAttention" in each.message)
    assert warning.where.partition(":")[0] == ("packed.yaml" if converted else "train.py")
    other = {"other.py": f"{TRAINER.replace(FLASH, 'sdpa')}load('packed.yaml')\n"}
    shared = planned(tmp_path / "shared", files | other)
    assert set(changed(shared)) == {"other.py", "train.py" if converted else "packed.yaml"}


RING = "python train.py --bf16 True --use_ring_flash_attn true\n"


@pytest.mark.parametrize(("command", "stays"), [(RING, True), (RING.replace("ring_", ""), False)])
def test_a_program_whose_command_splits_sequences_over_cards_stays_whole(
    tmp_path: Path, command: str, stays: bool
) -> None:
    files = {"train.py": TRAINER.replace(FLASH, "sdpa"), "run.sh": command}
    assert bool(changed(planned(tmp_path, files))) is not stays
