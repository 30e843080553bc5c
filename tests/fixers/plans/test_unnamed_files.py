"""Notebooks and settings files that the command of a config cannot use are left out."""

import itertools
import json
import time

import pytest

from fixers.frame.change import FileChange
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from fixers.plans.unnamed_files import MOST_COMPUTED, NOT_NAMED, _Names, _names_of
from fixers.registry import SOURCE_NAMES
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.setup_rig import MemoryTree

SCRIPT = b"""import sys
from transformers import HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser(TrainingArguments).parse_json_file(sys.argv[1])
trainer = Trainer(model=model, args=args)
trainer.train()
"""
OLD = b'{"output_dir": "out", "learning_rate": 0.1, "bf16": true, "evaluation_strategy": "steps"}\n'
NEW = b'{"output_dir": "out", "learning_rate": 0.1, "bf16": true, "eval_strategy": "steps"}\n'
CELL = """from transformers import Trainer, TrainingArguments
Trainer(args=TrainingArguments('o', evaluation_strategy='no')).train()"""
NOTEBOOK = json.dumps(
    {"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": [CELL]}], "nbformat": 4}
).encode()
PINS = b"transformers==5.0.0\n"


def planned(files, command=("python", "train.py", "configs/a.json"), **config):
    tree = MemoryTree({"requirements.txt": PINS, "train.py": SCRIPT, "configs/a.json": OLD, **files})
    site = Site(tree, TITAN_RTX, config={"command": list(command), **config} if command else config)
    return plan_fixes(site, only=SOURCE_NAMES)


def changed(plan):
    return {each.path for each in plan.changes if isinstance(each, FileChange)}


@pytest.mark.parametrize(
    "files",
    [
        {"notebooks/demo.ipynb": NOTEBOOK},
        {"configs/b.json": OLD},
        {"examples/german.yaml": b"output_dir: out\nlearning_rate: 1\nevaluation_strategy: steps\n"},
        {"configs/b.json": OLD, "README.md": b"    python train.py configs/b.json\n"},
        {"configs/b.json": OLD, "run.ipynb": NOTEBOOK.replace(b"Trainer(", b"x('configs/b.json'); Trainer(")},
        {"configs/b.json": OLD, "configs/c.json": b'{"base": "b.json"}'},
        {"configs/large.json": OLD, "model.py": b"def large(x):\n    return x.large\n"},
        {"configs/fr.json": OLD, "prepare.py": b"open(f'data/{name}.json')\n"},
    ],
)
def test_a_file_that_the_command_cannot_use_is_left_out_and_listed(files):
    plan = planned(files)
    assert changed(plan) <= {"configs/a.json", "train.py"}
    assert NOT_NAMED in {each.reason for each in plan.skipped}
    assert not any(each.where.startswith(tuple(files)) for each in plan.findings)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, ("python", "train.py", "configs/b.json")),
        ({}, ("python", "train.py", "--config=configs/b")),
        ({}, "python train.py configs/b.json"),
        ({"go.sh": b"python train.py configs/b.json\n"}, ("bash", "go.sh")),
        ({"go": b"#!/bin/sh\npython train.py configs/b.json\n"}, ("./go",)),
        ({"Makefile": b"train:\n\tpython train.py configs/b.json\n"}, ("make", "train")),
        ({"main.py": b"import train\nCONFIG = 'configs/b.json'\n"}, ("python", "main.py")),
        ({"main.py": b"import train\nname = 'b'\n"}, ("python", "main.py")),
        ({"configs/all.yaml": b"defaults:\n  - task: b\n"}, ("python", "train.py", "configs/all.yaml")),
        ({"main.py": b"import train\nfor each in glob('configs/*.json'): pass\n"}, ("python", "main.py")),
    ],
)
def test_a_file_that_something_names_is_changed_as_before(files, command):
    assert "configs/b.json" in changed(planned({"configs/b.json": OLD, **files}, command))


def test_the_changes_of_the_file_that_the_command_names_stay_the_same():
    plan = planned({"configs/b.json": OLD})
    assert {each.after for each in plan.changes if each.path == "configs/a.json"} == {NEW}


@pytest.mark.parametrize("command", [("jupyter", "execute", "notebooks/demo.ipynb"), ("bash", "nb.sh")])
def test_a_started_notebook_is_changed(command):
    files = {"notebooks/demo.ipynb": NOTEBOOK, "nb.sh": b"papermill notebooks/demo.ipynb out\n"}
    assert "notebooks/demo.ipynb" in changed(planned(files, command))


@pytest.mark.parametrize("config", [{}, {"precision": "auto"}])
def test_without_a_command_every_file_is_changed(config):
    plan = planned({"notebooks/demo.ipynb": NOTEBOOK, "configs/b.json": OLD}, None, **config)
    assert {"notebooks/demo.ipynb", "configs/a.json", "configs/b.json"} <= changed(plan)


@pytest.mark.parametrize(
    ("text", "path", "held"),
    [
        (b"f'stage{n}.json'", "stage2.json", True),
        (b"f'stage{n}.json'", "phase2.json", False),
        (b"f'{kind}_{size}_ft.yaml'", "conf/asr_base_ft.yaml", True),
        (b"f\"{row['lang']}_ft.json\"", "de_ft.json", True),
        (b"'ft_%s.json' % lang", "ft_de.json", True),
        (b"f'{name}.json'", "de.json", False),
        (b"Path('conf').glob('*.yaml')", "conf/de.yaml", True),
        (b"Path('data').glob('*.yaml')", "conf/de.yaml", False),
        (b"open('conf/DE.JSON')", "conf/DE.JSON", True),
    ],
)
def test_a_computed_name_names_the_files_that_it_may_be(text, path, held):
    names = _Names([path])
    names.add(text, is_python=True)
    assert names.hold(path) is held


def held_if_each_name_is_compared(pairs, stem, ending):
    """The same rule as in _Names, but one computed name after another."""
    return any(
        stem.startswith(first)
        and (stem[len(first) :] + ending).endswith(last)
        and len(last) >= len(ending)
        and len(first) + len(last) - len(ending) >= 3
        for first, last in pairs
    )


@pytest.mark.parametrize("copies", [0, 30])
@pytest.mark.parametrize("is_latest", [True, False])
def test_many_computed_names_are_compared_as_few_are(copies, is_latest):
    parts = ["".join(each) for size in range(4) for each in itertools.product("ab", repeat=size)]
    for first, last in itertools.product(parts, parts):
        pairs = [(first, f"{last}.json"), *((first, f"no{number}.json") for number in range(copies))]
        paths = [f"conf/{stem}.json" for stem in ("abab", "bab", "ba", "a", "aaaaa")]
        names = _Names(paths)
        names.add("\n".join(f"'{one}{{x}}{other}'" for one, other in pairs).encode(), is_python=True)
        held = names.take_held(paths) if is_latest else {path for path in paths if names.hold(path)}
        assert held == {path for path in paths if held_if_each_name_is_compared(pairs, path[5:-5], ".json")}


def test_a_computed_name_is_compared_with_all_files_once_and_holds_later_too():
    names = _Names(["abc2.json", "cde2.json"])
    names.add(b"f'abc{n}.json'", is_python=True)
    assert names.take_held(["abc2.json", "cde2.json"]) == {"abc2.json"}
    assert names.take_held(["abc2.json"]) == set() and names.hold("abc2.json")
    names.add(b"f'cde{n}.json'", is_python=True)
    assert names.take_held(["cde2.json"]) == {"cde2.json"}


@pytest.mark.parametrize(
    "computed",
    [
        pytest.param([f"{{a}}q{number:06}.yaml" for number in range(MOST_COMPUTED - 1000)], id="one first part"),
        pytest.param(
            [f"{'x' * first}{{a}}{'y' * last}.yaml" for first in range(100) for last in range(1, 96)], id="many parts"
        ),
    ],
)
def test_SE_many_computed_names_and_a_chain_of_settings_files_are_compared_in_linear_time(computed):
    chain = [f"ch{number}.yaml" for number in range(18)]
    files = {f"c/{'x' * 100}{number:04}.yaml": b"bf16: true\n" for number in range(1000)}
    files |= {name: f"next: {after}\n".encode() for name, after in zip(chain, [*chain[1:], ""], strict=True)}
    tree = MemoryTree({"train.py": "\n".join(f'"{name}"' for name in computed).encode(), **files})
    command = ["python", "train.py", chain[0]]
    began = time.process_time()
    names = _names_of(Site(tree, config={"command": command}), " ".join(command))
    assert [path for path in files if names.hold(path)] == chain
    assert time.process_time() - began < 20


def test_SE_a_text_with_many_names_needs_no_memory_for_them():
    names = _Names(["conf/a.json"])
    names.add(b"\n".join(b'"w%d"' % number for number in range(1000)))
    names.add(b"".join(b"'/x%d'" % number for number in range(1000)), is_python=True)
    assert not names.words and not names.stems
    names.add(b"".join(b"'a%d{}.json'," % number for number in range(MOST_COMPUTED + 10)), is_python=True)
    assert len(names.computed) == MOST_COMPUTED + 1
    assert names.names_all and names.hold("conf/a.json")


def test_a_name_that_is_no_utf8_names_its_file():
    path = b"conf/caf\xe9.json".decode("utf-8", "surrogateescape")
    names = _Names([path])
    assert not names.hold(path)
    names.add(b"python train.py conf/caf\xe9.json")
    names.add(b"f'caf{x}.json'", is_python=True)
    assert names.hold(path)


def test_SE_long_chains_of_long_computed_names_end():
    paths = [f"conf/{'x' * 200}{number}.json" for number in range(300)]
    texts = (f'{{"next": "{"x" * 200}{number + 1}.json", "like": "{"y" * 100}{{}}.json"}}' for number in range(300))
    files = dict(zip(paths, map(str.encode, texts), strict=True))
    tree = MemoryTree({"train.py": b"", **files})
    names = _names_of(Site(tree, config={"command": ["python", "train.py", paths[0]]}), f"python train.py {paths[0]}")
    assert names.names_all and names.hold(paths[-1])
