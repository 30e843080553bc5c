"""A program whose loss scaler a setting keeps off keeps bfloat16; with the setting on, the program is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned

RUNNER = """import torch


class Runner:
    def __init__(self, cfg, groups):
        self.use_grad_scaler = cfg.use_grad_scaler
        self.optimizer = torch.optim.AdamW(groups(cfg))
        if self.use_grad_scaler:
            self.scaler = torch.amp.GradScaler("cuda")

    def step(self, batch):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.network(batch).mean()
        if self.use_grad_scaler:
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    runner = Runner(load("train.yaml"), groups)
    for batch in loader:
        runner.step(batch)
"""
ENABLED = RUNNER.replace(
    """if self.use_grad_scaler:
            self.scaler = torch.amp.GradScaler("cuda")""",
    'self.scaler = torch.amp.GradScaler("cuda", enabled=cfg.use_grad_scaler)',
)
OPTION = 'parser.add_argument("--use-grad-scaler", action="store_true")\n'
PARSED = ENABLED.replace("if __name__", f"{OPTION}if __name__")


@pytest.mark.parametrize(
    ("code", "others", "where"),
    [
        (RUNNER, {"train.yaml": "lr: 1\nuse_grad_scaler: false\n"}, "train.yaml:2"),
        (RUNNER, {"train.yaml": "use_grad_scaler: true\n"}, ""),
        (RUNNER, {"train.yaml": "use_grad_scaler: false\n", "big.yaml": "use_grad_scaler: True\n"}, ""),
        (RUNNER, {}, ""),
        (ENABLED, {"train.json": '{"use_grad_scaler": false}'}, "train.json:1"),
        (PARSED, {"run.sh": "python train.py\n"}, "train.py:22"),
        (PARSED, {"run.sh": "python train.py --use-grad-scaler\n"}, ""),
        (RUNNER.replace("if self.use_grad_scaler:\n            self", "if cfg.amp:\n            self"), {}, ""),
    ],
)
def test_a_program_with_a_scaler_that_a_setting_keeps_off_stays(
    tmp_path: Path, code: str, others: dict[str, str], where: str
) -> None:
    plan = planned(tmp_path, {"train.py": code, **others})
    assert bool(changed(plan)) is not bool(where)
    kept = [each.message for each in plan.findings if "loss scaler off" in each.message]
    assert [f"{where} keeps the loss scaler off (use_grad_scaler)" in each for each in kept] == [True] * bool(where)
    assert all(each.hint.startswith("set use_grad_scaler to true") for each in plan.findings if where)
    if not where:
        assert "dtype=torch.float16" in changed(plan)["train.py"]
