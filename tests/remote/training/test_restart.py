"""Which checkpoint a trainer resumes from, after a restart by torchrun and with steps of another size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from remote.payload.checkpoints.files import MANIFEST
from remote.payload.checkpoints.published import publish
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.memory import bytes_saved_by_sharding
from remote.payload.training.saving import resume_point, warn_of_other_steps
from remote.protocol.training import TrainingPaths
from tests.remote.jobs.test_checkpoints import save

ALONE = SimpleNamespace(world_size=1, process_index=0, device=torch.device("cpu"))


@pytest.fixture
def paths(tmp_path: Path) -> TrainingPaths:
    """A run with verified checkpoints of steps 4 and 8, and one of step 12 that was being saved."""
    for step in (4, 8, 12):
        folder = save(tmp_path / "checkpoints", step)
        if step < 12:
            publish(str(folder))
    run = str(tmp_path)
    return TrainingPaths(run, f"{run}/checkpoints", f"{run}/tensorboard", f"{run}/adapter", f"{run}/cache")


def test_the_first_start_uses_the_checkpoint_of_the_job(paths: TrainingPaths) -> None:
    assert resume_point(paths, ALONE) == ""
    assert resume_point(replace(paths, resume_from="/c/checkpoint-4"), ALONE) == "/c/checkpoint-4"


def test_a_restart_uses_the_newest_verified_one(paths: TrainingPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert resume_point(paths, ALONE) == f"{paths.checkpoints}/checkpoint-8"
    Path(paths.checkpoints, "checkpoint-8", MANIFEST).unlink()
    assert resume_point(paths, ALONE) == f"{paths.checkpoints}/checkpoint-4"
    Path(paths.checkpoints, "checkpoint-4", MANIFEST).unlink()
    assert resume_point(replace(paths, resume_from="/c/checkpoint-4"), ALONE) == ""


def test_ranks_agree_on_a_step_that_all_of_them_have(paths: TrainingPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    several = SimpleNamespace(world_size=2, process_index=0, device=torch.device("cpu"))

    def other_rank_has(step: int) -> None:
        def reduce(tensor: torch.Tensor, op: object) -> None:
            tensor.clamp_(max=step)

        monkeypatch.setattr(torch.distributed, "all_reduce", reduce)

    other_rank_has(4)
    assert resume_point(paths, several) == f"{paths.checkpoints}/checkpoint-4"
    other_rank_has(2)
    with pytest.raises(TrainingFailed, match="checkpoint-2"):
        resume_point(paths, several)


@pytest.mark.parametrize(("steps_per_epoch", "warned"), [(4, False), (8, True)])
def test_a_checkpoint_with_other_step_sizes_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, steps_per_epoch: int, warned: bool
) -> None:
    (tmp_path / "trainer_state.json").write_text('{"global_step": 2, "epoch": 0.5}')
    with caplog.at_level("INFO"):
        warn_of_other_steps(str(tmp_path), steps_per_epoch)
    assert ("samples will be trained twice or left out" in caplog.text) == warned


def test_the_part_of_a_sharded_base_on_other_processes_needs_no_memory() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(1000, 1000, bias=False) for _ in range(8)).requires_grad_(False)
    for layer in layers:
        layer.adapter = torch.nn.Parameter(torch.zeros(10))
    model = SimpleNamespace(get_base_model=lambda: SimpleNamespace(get_decoder=lambda: SimpleNamespace(layers=layers)))
    layer_bytes = 4 * 1000 * 1000
    # Of eight layers, a process keeps four, and two are whole at a time.
    assert bytes_saved_by_sharding(model, 2) == 2 * layer_bytes
    assert bytes_saved_by_sharding(model, 8) == 5 * layer_bytes
    assert bytes_saved_by_sharding(model, 1) == 0
