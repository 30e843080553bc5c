"""Code of functions that nothing calls is not changed, unless something that is not read may call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from fixers.plans.site_plan import plan_fixes
from fixers.plans.uncalled import NOT_CALLED
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.plans.program_files import changed, planned

BASE = "class Base:\n    def fit(self):\n        self.step()\n"
TRAINER = """import torch
from accelerate import Accelerator
{imports}

class Trainer{bases}:
    def __init__(self, model, loader):
        self.accelerator = Accelerator(mixed_precision="bf16")
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters())

    def step(self):
        for batch in self.loader:
            self.accelerator.backward(self.model(self._features(batch)).mean())
            self.optimizer.step()

    @torch.no_grad()
    @torch.autocast("cuda", dtype=torch.bfloat16)
    def _features(self, batch):
        return batch
{code}

Trainer(model, loader).step()
"""
UNCALLED = """
    @torch.no_grad()
    @torch.autocast("cuda", dtype=torch.bfloat16)
    def _old_features(self, batch):
        return batch
"""
IMPORTED = "from core.base import Base"
LEFT = {
    "a method": {"train.py": TRAINER.format(imports="", bases="", code=UNCALLED)},
    "a method of a subclass": {
        "train.py": TRAINER.format(imports=IMPORTED, bases="(Base)", code=UNCALLED),
        "core/base.py": BASE,
    },
    "a method of a subclass in the same file": {
        "train.py": TRAINER.format(imports=f"\n{BASE}", bases="(Base)", code=UNCALLED)
    },
    "a method that another class defines too": {
        "train.py": TRAINER.format(imports=IMPORTED, bases="(Base)", code=UNCALLED),
        "core/base.py": f"{BASE}\n    def _old_features(self, batch):\n        raise NotImplementedError\n",
    },
    "a method whose name ends like a composed key": {
        "train.py": TRAINER.format(imports="", bases="", code=UNCALLED),
        "tool.py": "def read(row, kind):\n    return row['{}_features'.format(kind)]\n",
    },
    "a static method": {
        "train.py": TRAINER.format(
            imports="",
            bases="",
            code="\n    @staticmethod\n    def _old_features(batch):\n        return batch.to(torch.bfloat16)\n",
        )
    },
    "a function": {
        "train.py": TRAINER.format(
            imports="", bases="", code="\n\ndef old_features(batch):\n    return batch.to(torch.bfloat16)\n"
        )
    },
}
CALLED = {
    "a call in another file": {"tool.py": "def use(trainer):\n    return trainer._old_features(1)\n"},
    "a string in another file": {"tool.py": "NAMES = ['_old_features']\n"},
    "a composed name": {"tool.py": "def use(trainer, kind):\n    return getattr(trainer, f'_{kind}_features')(1)\n"},
    "a composed name in a variable": {"tool.py": "name = f'_{kind}_features'\n"},
    "a name with a computed end": {"tool.py": "def use(trainer, kind):\n    getattr(trainer, '_old_' + kind)(1)\n"},
    "a config": {"conf/a.yaml": "features: _old_features\n"},
    "a notebook": {"a.ipynb": '{"cells": [{"cell_type": "code", "source": ["t._old_features(1)"]}]}'},
    "a document": {"README.md": "Call `trainer._old_features(batch)`.\n"},
    "a tool's config": {"pyproject.toml": '[project.scripts]\nold = "train:_old_features"\n'},
}
FORMS = {
    "a public method": UNCALLED.replace("_old_features", "old_features"),
    "a method with a decorator that may register it": UNCALLED.replace("@torch.no_grad()", "@registry.add"),
    "a special method": UNCALLED.replace("_old_features", "__call__"),
}
BASES = {
    "a class of a library": ("from lib.core import Base", "(Base)"),
    "a class that is not imported by name": ("from core.base import *", "(Base)"),
    "a class with a metaclass": ("import lib", "(metaclass=lib.Meta)"),
    "a computed class": ("import lib", "(lib.base())"),
    "a class with a base class of a library": ("from core.own import Own", "(Own)"),
}


def narrow(text: str) -> int:
    return text.count("torch.bfloat16")


@pytest.mark.parametrize("files", LEFT.values(), ids=LEFT)
def test_a_function_that_nothing_calls_stays_and_the_other_code_of_its_file_is_converted(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plan = planned(tmp_path, files)
    after = changed(plan)["train.py"]
    assert narrow(after) == 1
    assert after.index("torch.float16") < after.index("def _features") < after.index("torch.bfloat16")
    assert [each.where.partition(":")[0] for each in plan.skipped if each.reason == NOT_CALLED] == ["train.py"]
    apply_to_disk(tmp_path, plan)
    assert plan_fixes(Site(DiskTree(tmp_path), gpu=TITAN_RTX)).changes == ()


@pytest.mark.parametrize("other", CALLED.values(), ids=CALLED)
def test_a_function_that_a_text_of_the_project_names_is_converted(tmp_path: Path, other: dict[str, str]) -> None:
    files = {"train.py": TRAINER.format(imports="", bases="", code=UNCALLED), **other}
    assert narrow(changed(planned(tmp_path, files))["train.py"]) == 0


@pytest.mark.parametrize("code", FORMS.values(), ids=FORMS)
def test_a_method_that_a_library_may_call_is_converted(tmp_path: Path, code: str) -> None:
    assert (
        narrow(changed(planned(tmp_path, {"train.py": TRAINER.format(imports="", bases="", code=code)}))["train.py"])
        == 0
    )


@pytest.mark.parametrize(("imports", "bases"), BASES.values(), ids=BASES)
def test_a_method_of_a_class_with_a_base_class_of_a_library_is_converted(
    tmp_path: Path, imports: str, bases: str
) -> None:
    own = {"core/base.py": BASE, "core/own.py": "import lib\n\n\nclass Own(lib.Base):\n    pass\n"}
    files = {"train.py": TRAINER.format(imports=imports, bases=bases, code=UNCALLED), **own}
    assert narrow(changed(planned(tmp_path, files))["train.py"]) == 0


@pytest.mark.parametrize("start", ["import fire\n\nfire.Fire(Trainer)\n", "for name in globals():\n    print(name)\n"])
def test_functions_that_a_command_line_may_name_are_converted(tmp_path: Path, start: str) -> None:
    files = {"train.py": TRAINER.format(imports="", bases="", code=UNCALLED) + start}
    assert narrow(changed(planned(tmp_path, files))["train.py"]) == 0


def test_an_import_for_a_function_that_nothing_calls_is_not_added(tmp_path: Path) -> None:
    uncalled = "\n\ndef old_device(model):\n    return model.to(dist.get_rank())\n"
    code = TRAINER.format(imports="import torch.distributed as dist\n", bases="", code=uncalled)
    after = changed(planned(tmp_path, {"train.py": code, "run.sh": "torchrun --nnodes 2 train.py\n"}))["train.py"]
    assert "import os" not in after
    assert "dist.get_rank()" in after


@pytest.mark.parametrize("last", ["object", "lib.Base", "A0"])
@pytest.mark.parametrize(("levels", "names"), [(60, "AB"), (1000, "A")])
def test_SE_many_levels_of_base_classes_are_judged_once(tmp_path: Path, levels: int, names: str, last: str) -> None:
    rows = ["import lib\n"]
    for at in range(levels):
        bases = ", ".join(f"{name}{at + 1}" for name in names)
        rows += [f"class {name}{at}({bases}):\n    pass\n" for name in names]
    rows += [f"class {name}{levels}({last}):\n    pass\n" for name in names]
    code = TRAINER.format(imports="".join(rows), bases="(A0)", code=UNCALLED)
    assert narrow(changed(planned(tmp_path, {"train.py": code}))["train.py"]) == (1 if last == "object" else 0)
