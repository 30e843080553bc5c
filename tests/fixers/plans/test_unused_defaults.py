"""A default of bfloat16 stays if every call of the training passes the argument, or if the function never reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.sources.option_defaults import UNUSED_DEFAULT
from tests.fixers.plans.program_files import LOOP, changed, planned

PROGRAM = "from build import {name}\n\n" + LOOP.replace("torch.nn.Linear(2, 2)", "{made}")
CODE = """import torch


def make(size, dtype=torch.bfloat16):
    return torch.nn.Linear(size, size).to({read})


class Net(torch.nn.Module):
    def __init__(self, size, *, dtype=torch.bfloat16):
        super().__init__()
        self.layer = torch.nn.Linear(size, size).to(dtype)
"""
PASSED = {
    "by name": ("make", "make(2, dtype=torch.float32)"),
    "by position": ("make", "make(2, torch.float32)"),
    "to a constructor": ("Net", "Net(2, dtype=torch.float32)"),
}
RELIED = {
    "a call without it": ("make", "make(2)"),
    "unpacked options": ("make", "make(2, **options)"),
    "one of two calls": ("make", "torch.nn.Sequential(make(2, dtype=torch.float32), make(2))"),
    "a function that is passed on": ("make", "wrap(make, make(2, dtype=torch.float32))"),
    "a constructor without it": ("Net", "Net(2)"),
    "a name in a table": ("make", "wrap('make', make(2, dtype=torch.float32))"),
}


def files(name: str, made: str, read: str = "dtype") -> dict[str, str]:
    other = "Net" if name == "make" else "make"
    code = CODE.format(read=read)
    kept = code[: code.index("class Net")] if other == "Net" else "import torch\n\n\n" + code[code.index("class Net") :]
    return {"train.py": PROGRAM.format(name=name, made=made), "build.py": kept}


@pytest.mark.parametrize(("name", "made"), PASSED.values(), ids=PASSED)
def test_a_default_that_every_call_overrides_stays(tmp_path: Path, name: str, made: str) -> None:
    plan = planned(tmp_path, files(name, made))
    assert set(changed(plan)) == {"train.py"}
    assert [each.where.partition(":")[0] for each in plan.skipped if each.reason == UNUSED_DEFAULT] == ["build.py"]


@pytest.mark.parametrize(("name", "made"), RELIED.values(), ids=RELIED)
def test_a_default_on_which_a_call_relies_is_changed(tmp_path: Path, name: str, made: str) -> None:
    assert "dtype=torch.float16" in changed(planned(tmp_path, files(name, made)))["build.py"]


def test_a_default_that_the_function_does_not_read_stays(tmp_path: Path) -> None:
    assert set(changed(planned(tmp_path, files("make", "make(2)", read="'cuda'")))) == {"train.py"}


def test_a_default_that_the_function_may_read_by_name_is_changed(tmp_path: Path) -> None:
    assert "build.py" in changed(planned(tmp_path, files("make", "make(2)", read="**pick(locals())")))


def test_a_default_stays_beside_a_changed_function(tmp_path: Path) -> None:
    code = files("make", "make(2, dtype=torch.float32)")
    code["build.py"] += "\n\ndef cast(batch):\n    return batch.to(torch.bfloat16)\n"
    code["train.py"] = code["train.py"].replace("import make", "import cast, make").replace("(batch)", "(cast(batch))")
    after = changed(planned(tmp_path, code))["build.py"]
    assert "dtype=torch.bfloat16" in after
    assert "batch.to(torch.float16)" in after


METHOD = """import torch


class Table:
    def fill(self, size, device="cuda", dtype=torch.bfloat16):
        return torch.zeros(size, device=device, dtype=dtype)

    def rows(self, x):
        return {call}


def make(size):
    return torch.nn.Sequential(torch.nn.Linear(size, size), Table().rows(size))
"""


@pytest.mark.parametrize(
    ("call", "is_left"),
    [
        ("self.fill(3, x.device, x.dtype)", True),
        ("Table.fill(self, 3, x.device, x.dtype)", True),
        ("self.fill(3, x.device)", False),
        ("Table.fill(self, 3, x.device)", False),
    ],
)
def test_the_object_of_a_method_counts_as_an_argument_only_if_it_is_passed(tmp_path: Path, call: str, is_left: bool):
    code = files("make", "make(2)") | {"build.py": METHOD.format(call=call)}
    assert ("build.py" not in changed(planned(tmp_path, code))) is is_left


COLLATOR = """from dataclasses import dataclass

import torch


@dataclass{options}
class Rows{base}:
    size: int
    dtype: torch.dtype = torch.bfloat16

    def __call__(self, batch):
        return torch.stack(batch).to(self.dtype)
"""


@pytest.mark.parametrize(
    ("call", "parts", "is_left"),
    [
        ("Rows(2, dtype=torch.float32)", {}, True),
        ("Rows(2, torch.float32)", {"options": "(frozen=True)"}, True),
        ("Rows(size=2, dtype=torch.float32)", {"base": "(dict)"}, True),
        ("Rows(2)", {}, False),
        ("Rows(*sizes)", {}, False),
        ("Rows(2, **options)", {}, False),
        ("Rows(2, torch.float32)", {"base": "(dict)"}, False),
        ("parse(Rows, Rows(2, torch.float32))", {}, False),
    ],
)
def test_a_field_of_a_dataclass_that_every_call_passes_keeps_its_default(
    tmp_path: Path, call: str, parts: dict[str, str], is_left: bool
) -> None:
    code = {"build.py": COLLATOR.format(**{"options": "", "base": "", **parts})}
    code["train.py"] = f"from build import Rows\n\n{LOOP}".replace("in loader", f"in map({call}, loader)")
    plan = planned(tmp_path, code)
    assert ("build.py" not in changed(plan)) is is_left
    assert (UNUSED_DEFAULT in {each.reason for each in plan.skipped}) is is_left


def test_a_field_of_a_plain_class_is_changed(tmp_path: Path) -> None:
    plain = COLLATOR.format(options="", base="").replace("@dataclass\n", "@attrs.define\n")
    code = {"build.py": plain, "train.py": f"from build import Rows\n\n{LOOP}"}
    code["train.py"] = code["train.py"].replace("in loader", "in map(Rows(2, dtype=torch.float32), loader)")
    assert "dtype: torch.dtype = torch.float16" in changed(planned(tmp_path, code))["build.py"]


@pytest.mark.parametrize(
    ("named", "is_left"),
    [("type(model).__module__", True), ("model.__class__.__module__", True), ("'build'", True), ("name", False)],
)
def test_the_import_of_a_module_by_a_computed_name_may_call_a_class_without_a_field(
    tmp_path: Path, named: str, is_left: bool
) -> None:
    importing = f"import importlib\n\nfrom build import Rows\n\nmodule = importlib.import_module({named})\n\n{LOOP}"
    train = importing.replace("in loader", "in map(Rows(2, dtype=torch.float32), loader)")
    plan = planned(tmp_path, {"build.py": COLLATOR.format(options="", base=""), "train.py": train})
    assert ("build.py" not in changed(plan)) is is_left
