"""FlashAttention is replaced by what the models of a program support. A program that needs it stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import TRAINER, changed, planned

FLASH, NEEDS = "flash_attention_2", "this program needs FlashAttention"
MODEL = "class Net({bases}):\n    parts = []\n    _supports_flash_attn_2 = True\n{more}\n\ndef build():\n    pass\n"
TABLE = 'CLASSES_OF_ATTENTION = {{\n    "eager": Plain,\n    "flash_attention_2": Fast,\n{more}}}\n'
SUBMODEL = 'config.llm_config._attn_implementation = "flash_attention_2" if use_flash else "{other}"\n'
DEMO = 'model = Model.from_pretrained("m", attn_implementation="flash_attention_2")\nprint(model.generate())\n'
COMMAND = "python train.py --bf16 True --attn_implementation flash_attention_2\n"

EAGER_ONLY = {
    "a class that says so": "class Attention(Base):\n    _supports_sdpa = False\n",
    "a class of models without SDPA": MODEL.format(bases="PreTrainedModel", more=""),
    "a class with a mixin": MODEL.format(
        bases="Mixin, PreTrainedModel", more="\n    def forward(self):\n        pass\n"
    ),
    "the name in newer versions": MODEL.format(bases="PreTrainedModel", more="").replace("attn_2", "attn"),
    "a table without SDPA": TABLE.format(more=""),
    "a model that gives its part eager attention": SUBMODEL.format(other="eager"),
}
WITH_SDPA = {
    "a class with SDPA": MODEL.format(bases="PreTrainedModel", more="    _supports_sdpa = True\n"),
    "a class whose part decides": MODEL.format(
        bases="PreTrainedModel",
        more="\n    @property\n    def _supports_sdpa(self):\n        return self.part._supports_sdpa\n",
    ),
    "a class that inherits it": MODEL.format(bases="LlamaPreTrainedModel", more=""),
    "a class without FlashAttention": MODEL.format(bases="PreTrainedModel", more="").replace("= True", "= False"),
    "a table with SDPA": TABLE.format(more='    "sdpa": Other,\n'),
    "a model that gives its part SDPA": SUBMODEL.format(other="sdpa"),
}


@pytest.mark.parametrize(
    ("code", "word"),
    [*((code, "eager") for code in EAGER_ONLY.values()), *((code, "sdpa") for code in WITH_SDPA.values())],
    ids=[*EAGER_ONLY, *WITH_SDPA],
)
def test_flash_attention_becomes_what_the_models_of_the_program_support(tmp_path: Path, code: str, word: str) -> None:
    code = code.replace("CLASSES_OF_ATTENTION", "LLAMA_ATTENTION_CLASSES")
    files = {"train.py": f"import net\n{TRAINER}", "net.py": code, "run.sh": COMMAND}
    plan = planned(tmp_path, files)
    assert f'attn_implementation="{word}"' in changed(plan)["train.py"]
    assert f"--fp16 True --attn_implementation {word}\n" in changed(plan)["run.sh"]
    apply_to_disk(tmp_path, plan)
    assert not {*changed(plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)))} & {"train.py", "run.sh"}
    undo_on_disk(tmp_path)
    assert {path: (tmp_path / path).read_text() for path in files} == files


def test_models_of_another_program_do_not_restrict_the_attention(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        {
            "train.py": TRAINER,
            "other.py": f"import net\n{TRAINER}",
            "net.py": EAGER_ONLY["a class of models without SDPA"],
        },
    )
    assert 'attn_implementation="sdpa"' in changed(plan)["train.py"]
    assert 'attn_implementation="eager"' in changed(plan)["other.py"]


@pytest.mark.parametrize(
    ("path", "word"),
    [("ckpt/modeling_net.py", "eager"), ("old/net.py", "sdpa"), ("package/modeling_net.py", "sdpa")],
)
def test_a_model_that_no_import_names_counts_if_a_checkpoint_may_contain_it(
    tmp_path: Path, path: str, word: str
) -> None:
    model = EAGER_ONLY["a class of models without SDPA"]
    plan = planned(tmp_path, {"train.py": TRAINER, "package/__init__.py": "", path: model})
    assert f'attn_implementation="{word}"' in changed(plan)["train.py"]


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
    plan = planned(tmp_path, {"train.py": first + TRAINER, "attention.py": code, "run.sh": COMMAND})
    assert bool(changed(plan)) is not stays
    needing = [each for each in plan.findings if each.message.startswith(NEEDS)]
    assert [each.where for each in needing] == ["train.py"] * stays
    assert all("attention.py:" in each.message for each in needing)
    if not stays:
        assert FLASH not in changed(plan)["train.py"]


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
    plan = planned(tmp_path, {"train.py": f"import check\n{TRAINER}", "check.py": code, "run.sh": COMMAND})
    assert bool(changed(plan)) is not stays
    (warnings,) = ([each for each in plan.findings if "FlashAttention" in each.message],)
    assert [each.where for each in warnings] == ["train.py"] * stays
    assert all(each.message.startswith(NEEDS) and "check.py:" in each.message for each in warnings)


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
        "plain.sh": COMMAND.replace("train", "plain"),
        "flash.sh": COMMAND.replace("train", "flash"),
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


CHOICE = "fast = True if {test} else False\nmodel = Model(use_flash_attn=fast)\n"
DEBUG = 'if debug:\n    config._attn_implementation = "flash_attention_2"\n    layer.attend = {name}\n'


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ('config.use_flash_attn = True if args.attention == "flash_attention_2" else False\n', False),
        ("config.use_flash_attn = True if use_flash_attn else False\n", False),
        ("config.use_flash_attn = True if large else False\n", True),
        ('if "flash_attention_2" in options["attention"]:\n    options["use_flash_attn"] = True\n', False),
        ('if "large" in options["size"]:\n    options["use_flash_attn"] = True\n', True),
        (DEBUG.format(name="flash_attn_func"), False),
        (DEBUG.format(name="attend"), True),
    ],
)
def test_a_value_that_follows_another_choice_of_flash_attention_stays(tmp_path: Path, code: str, changes: bool) -> None:
    plan = planned(tmp_path, {"train.py": f"import net\n{TRAINER}", "net.py": code})
    assert ("net.py" in changed(plan)) is changes


BUILD = 'def build(name, attn_implementation{hint}="flash_attention_2"):\n    return load(name, attn_implementation)\n'
CLASS = (
    "class Net:\n    def __init__(self, x, *, attn_implementation: str = 'flash_attention_2'):\n"
    "        self.attention = attn_implementation\n"
)


@pytest.mark.parametrize(
    ("code", "call", "changes"),
    [
        (BUILD.format(hint=""), 'build("m")', True),
        (BUILD.format(hint=": str "), 'build("m")', True),
        (CLASS, 'Net("m")', True),
        (BUILD.format(hint=""), 'build("m", "eager")', False),
        (BUILD.format(hint=""), 'build("m", attn_implementation=args.attention)', False),
        (BUILD.format(hint=""), "build(*args)", False),
        (CLASS, 'Net("m", attn_implementation=None)', False),
        (CLASS, 'other("m")', False),
    ],
)
def test_a_default_changes_if_a_call_in_another_file_relies_on_it(
    tmp_path: Path, code: str, call: str, changes: bool
) -> None:
    trainer = f"from build import *\n{TRAINER.replace(FLASH, 'sdpa')}{call}\n"
    plan = planned(tmp_path, {"train.py": trainer, "build.py": code})
    assert ("build.py" in changed(plan)) is changes
    assert all(FLASH not in text for text in changed(plan).values())


def test_a_default_on_which_only_an_evaluation_relies_stays(tmp_path: Path) -> None:
    trainer = f"from build import build\n{TRAINER.replace(FLASH, 'sdpa')}build('m', 'eager')\n"
    evaluation = "from build import build\n\nbuild('m')\n"
    files = {"train.py": trainer, "build.py": BUILD.format(hint=""), "eval_model.py": evaluation}
    assert set(changed(planned(tmp_path, files))) == {"train.py"}
