"""A switch `use_flash` of a project that imports FlashAttention is turned off; one that selects SDPA stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import TRAINER, changed, planned
from tests.fixers.plans.project_plan import warned

MODEL = """class Attention:
    def forward(self, q, k, v, mask):
        if self.config.use_flash:
            from flash_attn import flash_attn_func

            return flash_attn_func(q, k, v)
        return softmax(q @ k.mT + mask) @ v
"""
OF_TORCH = MODEL.replace("            from flash_attn import flash_attn_func\n\n", "").replace(
    "flash_attn_func(q, k, v)", "torch.nn.functional.scaled_dot_product_attention(q, k, v)"
)
FIELD = """from dataclasses import dataclass, field


@dataclass
class Config:
    layers: int = 2
    use_flash: bool = field(default=True, metadata={"help": "fast attention"})
"""
ASSIGNED = f"from config import Config\n\nconfig = Config()\nconfig.use_flash = True\n{TRAINER}import model as layers\n"
COMMAND = "torchrun train.py --use_flash 1 --steps 10\n"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("config.py", "field(default=True,", "field(default=False,"),
        ("train.py", "config.use_flash = True", "config.use_flash = False"),
        ("run.sh", "--use_flash 1", "--use_flash 0"),
    ],
)
def test_the_switch_is_turned_off_where_it_selects_flash_attention(
    tmp_path: Path, path: str, old: str, new: str
) -> None:
    started = {"run.sh": COMMAND} if path == "run.sh" else {}
    files = {"model.py": MODEL, "config.py": FIELD, "train.py": ASSIGNED, **started}
    assert new in changed(planned(tmp_path, files))[path]
    of_torch = {"model.py": f"import torch\n\n\n{OF_TORCH}", "train.py": ASSIGNED.replace("flash_attention_2", "sdpa")}
    assert old in changed(planned(tmp_path / "torch", {**files, **of_torch})).get(path, files[path])


def test_a_program_whose_other_branch_raises_an_error_is_told_and_stays(tmp_path: Path) -> None:
    only = MODEL.replace("return softmax(q @ k.mT + mask) @ v", "raise NotImplementedError")
    plan = planned(tmp_path, {"model.py": only, "config.py": FIELD, "train.py": ASSIGNED, "run.sh": COMMAND})
    assert changed(plan) == {}
    assert "the branch without FlashAttention raises an error" in warned(plan)
