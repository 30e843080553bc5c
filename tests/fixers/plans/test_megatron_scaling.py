"""A program that calls Megatron-core itself is converted only if it sets the function that scales the loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import changed, planned

OPTIONS = 'parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16"])\n'
DRIVER = f"""import argparse

from engine import Engine
from transformers import TrainingArguments

arguments = TrainingArguments("out")
parser = argparse.ArgumentParser()
{OPTIONS}
if __name__ == "__main__":
    Engine(parser.parse_args()).train()
"""
ENGINE = """import torch


class Engine:
    def __init__(self, args):
        from megatron.core.distributed import finalize_model_grads
        from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

        self.config.fp16 = args.dtype == "float16"
        self.config.finalize_model_grads_func = finalize_model_grads
        {setting}
        self.optimizer = get_megatron_optimizer(OptimizerConfig(fp16=self.config.fp16, loss_scale=None), self.model)

    def train(self):
        for batch in self.loader:
            self.forward_backward(batch)
            self.optimizer.step()
"""
SCRIPT = f"""import argparse

import megatron.core as mcore
import torch
from transformers import TrainingArguments

parser = argparse.ArgumentParser()
{OPTIONS}
config = {{settings}}
run = mcore.pipeline_parallel.get_forward_backward_func()
step(run, config, TrainingArguments("out"), dtype=getattr(torch, parser.parse_args().dtype))
"""
UNSCALED = {
    "an engine without the function": ({"train.py": DRIVER, "engine.py": ENGINE.format(setting="")}, "engine.py:7"),
    "a function that is commented out": (
        {"train.py": DRIVER, "engine.py": ENGINE.format(setting="# self.config.grad_scale_func = scale")},
        "engine.py:7",
    ),
    "a schedule without the function": (
        {"train.py": SCRIPT.format(settings="Config(grad_scale_func = None)")},
        "train.py:11",
    ),
}
SCALED = {
    "an assignment": ENGINE.format(setting="self.config.grad_scale_func = self.scale"),
    "setattr": ENGINE.format(setting='setattr(self.config, "grad_scale_func", scale)'),
    "the optimizer's own function": ENGINE.format(setting="").replace("self.forward_backward(", "self.scale_loss("),
    "the loop of Megatron-LM": "from megatron.training import pretrain\n" + ENGINE.format(setting=""),
}


@pytest.mark.parametrize(("files", "where"), UNSCALED.values(), ids=UNSCALED)
def test_megatron_without_its_scale_function_stays_in_bfloat16(
    tmp_path: Path, files: dict[str, str], where: str
) -> None:
    plan = planned(tmp_path, files)
    assert changed(plan) == {}
    (message,) = [each.message for each in plan.findings if "stays in bfloat16" in each.message]
    assert f"{where} trains with megatron.core, and nothing sets grad_scale_func to scale the loss" in message


@pytest.mark.parametrize("engine", SCALED.values(), ids=SCALED)
def test_megatron_with_its_scale_function_is_converted(tmp_path: Path, engine: str) -> None:
    assert set(changed(planned(tmp_path, {"train.py": DRIVER, "engine.py": engine}))) == {"train.py"}


def test_a_schedule_with_its_scale_function_in_a_dict_is_converted(tmp_path: Path) -> None:
    script = SCRIPT.format(settings='{"grad_scale_func": optimizer.scale_loss}')
    assert set(changed(planned(tmp_path, {"train.py": script}))) == {"train.py"}
