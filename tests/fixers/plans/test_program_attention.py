"""FlashAttention is replaced by what the models of a program support."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.site_plan import plan_fixes
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import FLASH, FLASH_LAUNCH, TRAINER, changed, planned

MODEL = "class Net({bases}):\n    parts = []\n    _supports_flash_attn_2 = True\n{more}\n\ndef build():\n    pass\n"
TABLE = 'CLASSES_OF_ATTENTION = {{\n    "eager": Plain,\n    "flash_attention_2": Fast,\n{more}}}\n'
SUBMODEL = 'config.llm_config._attn_implementation = "flash_attention_2" if use_flash else "{other}"\n'
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
    files = {"train.py": f"import net\n{TRAINER}", "net.py": code, "run.sh": FLASH_LAUNCH}
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


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"two/pyproject.toml": "", "two/train.py": TRAINER}, "sdpa"),
        ({"two/setup.cfg": "", "two/jobs/train.py": TRAINER}, "sdpa"),
        ({"two/pyproject.toml": ""}, "eager"),
        ({"two/train.py": TRAINER}, "eager"),
        ({"one/pyproject.toml": "", "one/other.py": TRAINER}, "eager"),
    ],
    ids=["another project", "a script in a folder of it", "no program", "no build file", "only the own project"],
)
def test_code_of_a_checkpoint_in_another_subproject_does_not_restrict_the_attention(
    tmp_path: Path, other: dict[str, str], word: str
) -> None:
    model = EAGER_ONLY["a class of models without SDPA"]
    files = {"one/train.py": TRAINER, "two/deploy/modeling_net.py": model, **other}
    assert f'attn_implementation="{word}"' in changed(planned(tmp_path, files))["one/train.py"]


def test_code_of_a_checkpoint_in_the_own_subproject_restricts_the_attention(tmp_path: Path) -> None:
    model = EAGER_ONLY["a class of models without SDPA"]
    files = {"two/pyproject.toml": "", "two/train.py": TRAINER, "two/deploy/modeling_net.py": model}
    assert 'attn_implementation="eager"' in changed(planned(tmp_path, files))["two/train.py"]


HUB_CODE = TRAINER.replace('"base", ', "sys.argv[1], trust_remote_code=True, ")


@pytest.mark.parametrize(
    ("script", "named", "stays"),
    [
        (HUB_CODE, {"one/README.md": "python train.py lab/Phi-3-vision-128k-instruct\n"}, True),
        (HUB_CODE, {"one/run.sh": "python train.py lab/phi-3.5-vision-instruct\n"}, True),
        (HUB_CODE, {"one/README.md": "python train.py lab/Phi-4-multimodal-instruct\n"}, False),
        (HUB_CODE, {"two/README.md": "python train.py lab/Phi-3-vision-128k-instruct\n"}, False),
        (TRAINER, {"one/README.md": "python train.py lab/Phi-3-vision-128k-instruct\n"}, False),
    ],
    ids=["a document", "a command", "a checkpoint with SDPA", "another folder", "code of transformers"],
)
def test_a_program_with_a_checkpoint_whose_own_code_has_no_sdpa_stays(
    tmp_path: Path, script: str, named: dict[str, str], *, stays: bool
) -> None:
    plan = planned(tmp_path, {"one/train.py": script, **named})
    assert any("whose own code has no SDPA" in each.message for each in plan.findings) is stays
    assert ('attn_implementation="sdpa"' in changed(plan).get("one/train.py", "")) is not stays
