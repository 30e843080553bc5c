"""The catalog explains names that libraries removed, with the replacement that `plan` shows."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from fixers.sources.removed_names import HOOKS, METHODS, MODULES, NAMES, REMOVED_STRATEGIES, TRAINER_ARGUMENTS
from pipeline.diagnosis.diagnose import diagnose_text
from remote.protocol.findings import Finding

IMPORTED = [key for key in NAMES if ".Trainer." not in key]


def diagnosed(error: str) -> Finding:
    [finding] = diagnose_text(f'Traceback (most recent call last):\n  File "train.py", line 2, in <module>\n{error}\n')
    return finding


@pytest.mark.parametrize("key", IMPORTED)
def test_an_import_of_a_removed_name_has_its_replacement(key: str) -> None:
    module, _, name = key.rpartition(".")
    finding = diagnosed(f"ImportError: cannot import name '{name}' from '{module}' (/venv/lib/x/__init__.py)")
    assert (finding.check, finding.message.endswith(f": {name}")) == ("api-removed-name", True)
    assert NAMES[key].instead in finding.hint


@pytest.mark.parametrize("key", [*MODULES, "pytorch_lightning.utilities.distributed"])
def test_an_import_of_a_removed_module_has_its_replacement(key: str) -> None:
    finding = diagnosed(f"ModuleNotFoundError: No module named '{key}'")
    assert finding.check == "api-removed-name"
    assert f"Instead of {key}: " in finding.hint


@pytest.mark.parametrize("name", METHODS)
def test_a_removed_method_is_explained(name: str) -> None:
    finding = diagnosed(f"AttributeError: 'HubertForCTC' object has no attribute '{name}'")
    assert finding.check == ("api-freeze-extractor" if name.startswith("freeze") else "api-removed-name")
    assert finding.check == "api-freeze-extractor" or METHODS[name].instead in finding.hint


def test_a_name_of_an_unknown_kind_is_explained_without_replacement() -> None:
    finding = diagnosed("ImportError: cannot import name 'OldThing' from 'transformers' (/venv/x/__init__.py)")
    assert finding.check == "transformers-version"
    assert finding.hint.startswith("If a file of the project imports the name")


@pytest.mark.parametrize("name", TRAINER_ARGUMENTS)
def test_an_argument_that_lightning_2_rejects_has_its_replacement(name: str) -> None:
    finding = diagnosed(f"TypeError: Trainer.__init__() got an unexpected keyword argument '{name}'")
    assert (finding.check, finding.message.endswith(f": {name}")) == ("api-lightning", True)
    assert f"Instead of {name}: {TRAINER_ARGUMENTS[name].format('VALUE')}. " in finding.hint


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_lightning_2_rejects_has_its_replacement(name: str) -> None:
    finding = diagnosed(f"NotImplementedError: Support for `{name}` has been removed in v2.0.0. `Net` implements this")
    assert (finding.check, f"Instead of {name}: {HOOKS[name]}" in finding.hint) == ("api-lightning", True)


@pytest.mark.parametrize("name", REMOVED_STRATEGIES)
def test_a_strategy_that_lightning_2_rejects_has_its_replacement(name: str) -> None:
    finding = diagnosed(f"ValueError: You selected an invalid strategy name: `strategy='{name}'`. It must be")
    assert (finding.check, 'strategy="ddp"' in finding.hint) == ("api-lightning", True)


def test_the_trainer_of_the_installed_lightning_has_none_of_the_removed_arguments() -> None:
    found = find_spec("pytorch_lightning")
    assert found is not None
    assert found.origin is not None
    tree = ast.parse((Path(found.origin).parent / "trainer" / "trainer.py").read_text("utf-8"))
    trainer = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Trainer")
    create = next(node for node in trainer.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    accepted = {each.arg for each in create.args.kwonlyargs}
    assert "devices" in accepted
    assert not accepted & set(TRAINER_ARGUMENTS)


@pytest.mark.parametrize("name", ["get_ipython", "display"])
def test_a_name_of_a_notebook_is_explained(name: str) -> None:
    finding = diagnosed(f"NameError: name '{name}' is not defined")
    assert (finding.check, finding.message.endswith(f": {name}")) == ("notebook-code", True)
