"""The base model shared among two processes, with gloo; and checkpoints for another number of processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from remote.payload.checkpoints.published import verify

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
SETTINGS = {"samples": 16, "epochs": 2, "gradient_accumulation": 2, "save_steps": 2, "batch_size": 2}


def adapter_of(spec: Any, place: str = "adapter") -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = load_file(Path(spec.paths.run) / place / "adapter_model.safetensors")
    return weights


def largest_difference(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> float:
    assert one.keys() == two.keys()
    return max(float((one[name].float() - two[name].float()).abs().max()) for name in one)


@pytest.mark.parametrize("requested", ["fp32", "fp16-mixed"])
def test_a_sharded_base_trains_the_same_adapter(
    make_spec: Callable[..., Any], training: Callable[..., Any], requested: str
) -> None:
    # A last layer that is not checkpointed draws less dropout, because it computes fewer positions.
    settings = {**SETTINGS, "requested": requested, "gradient_checkpointing": True}
    whole = make_spec(run="whole", **settings)
    assert training(whole).run(processes=2)[0] == 0
    sharded = make_spec(run="sharded", shard_base=True, **settings)
    code, out, err = training(sharded).run(processes=2)
    assert code == 0, err
    assert "of the decoder layers" in out
    assert training(sharded).sample_ids == training(whole).sample_ids
    assert largest_difference(adapter_of(whole), adapter_of(sharded)) < 1e-5
    assert verify(str(Path(sharded.paths.checkpoints) / "checkpoint-4")) == ""
    assert sorted(path.name for path in Path(sharded.paths.checkpoints, "checkpoint-4").iterdir()) == sorted(
        path.name for path in Path(whole.paths.checkpoints, "checkpoint-4").iterdir()
    )


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_checkpoint_is_resumed_by_another_number_of_processes(
    make_spec: Callable[..., Any], training: Callable[..., Any], before: int, after: int
) -> None:
    def spec_for(processes: int, run: str, resume_from: str = "") -> Any:
        loop = {**SETTINGS, "gradient_accumulation": 4 // processes, "shard_base": True}
        made = make_spec(run=run, resume_from=resume_from, **loop)
        # Each process draws its own dropout.
        return replace(made, lora=replace(made.lora, dropout=0.0))

    whole = spec_for(before, "whole")
    assert training(whole).run(processes=before)[0] == 0
    rest = spec_for(after, "rest", f"{whole.paths.checkpoints}/checkpoint-2")
    code, out, err = training(rest).run(processes=after)
    assert code == 0, err
    assert ("step 3/4" in out, "step 2/4" in out, "warning: an epoch" in out) == (True, False, False)
    assert largest_difference(adapter_of(whole), adapter_of(rest)) < 1e-4
    moved = adapter_of(whole, "checkpoints/checkpoint-2")
    assert largest_difference(adapter_of(rest), moved) > 1e-3, "the last two steps have no effect"
