"""A second run of the fixers changes nothing: in the projects of the corpus, and in programs that share files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import FLASH, TRAINER, changed, planned
from tests.fixers.schemas import branches, parsers, registries
from tests.fixers.schemas.attention import REPLACED, STAYS

CORPUS = {
    f"{project.name}-{spelling}": project.written(spelling)
    for project in (*parsers.PROJECTS, *branches.PROJECTS, *registries.PROJECTS)
    for spelling in project.spellings
}
ATTENTION = {f"attention-{name}": files for name, files in (STAYS | REPLACED).items()}


@pytest.mark.parametrize("files", (CORPUS | ATTENTION).values(), ids=(CORPUS | ATTENTION).keys())
def test_a_second_plan_of_a_project_is_empty(tmp_path: Path, files: dict[str, str]) -> None:
    planned(tmp_path, files)


SETTINGS = f'class Settings:\n    attention: str = "{FLASH}"\n'
SHARED = TRAINER.replace(f'"{FLASH}"', "Settings.attention")
LAYERS = "for layer in layers:\n    layer.self_attn.is_causal = False\n"
MASKS = "modeling.LlamaModel._update_causal_mask = bidirectional_mask\n"
BESIDE = "def bidirectional():\n    for layer in layers:\n        layer.self_attn.is_causal = False\n"


@pytest.mark.parametrize(
    ("code", "converts"),
    [(LAYERS, False), (MASKS + LAYERS, True), (BESIDE, True), (f"{BESIDE}\n\nbidirectional()\n", False)],
    ids=["is_causal", "is_causal with a mask", "is_causal in an unused function", "is_causal in a used function"],
)
def test_a_shared_default_keeps_flash_attention_if_a_program_reaches_code_that_needs_it(
    tmp_path: Path, code: str, converts: bool
) -> None:
    files = {
        "settings.py": SETTINGS,
        "layers.py": code,
        "plain.py": f"from settings import Settings\n{SHARED}",
        "causal.py": f"import layers\nfrom settings import Settings\n{SHARED}",
    }
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == ({"settings.py", "plain.py", "causal.py"} if converts else set())
    needing = [each for each in plan.findings if "this program needs FlashAttention" in each.message]
    assert [each.where for each in needing] == ([] if converts else ["causal.py", "plain.py"])


def test_a_program_that_does_not_use_the_changed_default_restricts_nothing(tmp_path: Path) -> None:
    files = {
        "settings.py": f"{SETTINGS}\n\nclass Data:\n    path: str = 'data'\n",
        "plain.py": f"from settings import Settings\n{SHARED}",
        "causal.py": f"{LAYERS}from settings import Data\n{TRAINER.replace(FLASH, 'sdpa')}",
    }
    assert set(changed(planned(tmp_path, files))) == {"settings.py", "plain.py", "causal.py"}
