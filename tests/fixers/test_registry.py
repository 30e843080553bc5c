"""The registry lists every fixer without importing any of them, and the modules that it names are fixers."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fixers.frame.site import Fixer, Site
from fixers.frame.source_fixer import SourceFixer
from fixers.registry import EXTRA_MODES, FIXERS, SOURCE_NAMES, setup_fixers, source_fixers, version_of

ROOT = Path(__file__).parents[2]


def test_reading_names_and_settings_imports_no_fixer() -> None:
    code = "import sys, fixers.registry as r; r.FIXERS['tokenizer'].settings; print(*(m for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    ours = {name for name in done.stdout.split() if name.split(".")[0] in ("fixers", "remote", "pipeline")}
    assert ours == {"fixers", "fixers.registry", "remote", "remote.protocol", "remote.protocol.dataclass"}


def test_the_fixers_come_in_the_order_of_the_registry_source_fixers_first() -> None:
    assert tuple(FIXERS) == tuple(fixer.name for fixer in (*source_fixers(), *setup_fixers()))


def test_every_module_that_reads_as_a_fixer_is_registered() -> None:
    folders = {entry.folder for entry in FIXERS.values()}
    files = {path for folder in folders for path in (ROOT / "fixers" / folder).glob("*.py")}
    fixers = {path.stem.replace("_", "-") for path in files if "\nHow to undo\n" in path.read_text("utf-8")}
    assert fixers == set(FIXERS)


@pytest.mark.parametrize("fixer", source_fixers(), ids=lambda fixer: fixer.name)
def test_a_source_fixer_has_every_member_of_its_protocol(fixer: SourceFixer) -> None:
    assert version_of(fixer.name) >= 1 and not hasattr(fixer, "version")
    assert fixer.needles and all(isinstance(needle, bytes) for needle in fixer.needles)
    assert fixer.below is None or len(fixer.below) == 2
    assert set(fixer.requires) <= set(SOURCE_NAMES)
    assert callable(fixer.matches)
    assert (
        list(inspect.signature(fixer.rewrite).parameters) == list(inspect.signature(SourceFixer.rewrite).parameters)[1:]
    )


@pytest.mark.parametrize("fixer", setup_fixers(), ids=lambda fixer: fixer.name)
def test_a_setup_fixer_plans_for_a_site(fixer: Fixer) -> None:
    assert _parameters(fixer.plan) == _parameters(Fixer.plan)[1:]
    assert version_of(fixer.name) >= 1 and not hasattr(fixer, "version")
    assert fixer.plan(Site(_NoFiles())).changes == ()


def _parameters(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(function).parameters)


class _NoFiles:
    def paths(self):
        return ()

    def read(self, path):
        raise FileNotFoundError(path)


def test_extra_modes_are_of_registered_fixers() -> None:
    assert set(EXTRA_MODES) <= set(FIXERS)
