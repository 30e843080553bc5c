"""A checkpoint-N folder in another format than Trainer's is neither verified nor broken."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.operations.jobs import prepare_resume
from remote.payload.checkpoints import published
from remote.payload.checkpoints.found import find_checkpoints
from remote.protocol.exits import ExitCode
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.test_checkpoints import save

ACCELERATE = ("model.safetensors", "optimizer.bin", "scheduler.bin", "random_states_0.pkl")
FORMATS = {
    "accelerate": ACCELERATE,
    "accelerate, several models": ("model.safetensors", "model_1.safetensors", "optimizer.bin", "optimizer_1.bin"),
    "accelerate, custom": ("pytorch_model.bin", "optimizer.bin", "custom_checkpoint_0.pkl"),
    "accelerate, fsdp": ("pytorch_model_fsdp_0/.metadata", "optimizer_0/__0_0.distcp", "random_states_1.pkl"),
    "accelerate, deepspeed": ("pytorch_model/mp_rank_00_model_states.pt", "scheduler.bin"),
    "deepspeed": ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"),
    "torch distributed": (".metadata", "__0_0.distcp"),
}
TRAINER = {
    "nothing yet": (),
    "weights": ("model.safetensors", "config.json"),
    "adapter": ("adapter_model.safetensors", "adapter_config.json"),
    "weights of a sharded model": ("model-00001-of-00002.safetensors",),
    "weights and arguments": ("model.safetensors", "training_args.bin"),
    "optimizer": ("model.safetensors", "optimizer.pt"),
    "fsdp": ("pytorch_model_fsdp_0/.metadata", "pytorch_model_fsdp_0/__0_0.distcp", "optimizer_0/__0_0.distcp"),
    "fsdp, full": ("pytorch_model_fsdp.bin", "optimizer.bin"),
    "deepspeed": ("global_step10/mp_rank_00_model_states.pt", "zero_to_fp32.py"),
    "all but the state": ("model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth"),
}


def write(folder: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def job(run: Path, number: int, *, began: float, last_step: float = 0.0, newest: bool = True, **result: object) -> None:
    folder = run / "jobs" / str(number)
    folder.mkdir(parents=True)
    started = {"pid": 1, "start_ticks": 1, "boot_id": "b", "started_unix": began}
    (folder / "supervisor.json").write_text(json.dumps(started))
    if last_step:
        (run if newest else folder).joinpath("progress.json").write_text(json.dumps({"step": 1, "at_unix": last_step}))
    if result:
        (folder / "result.json").write_text(json.dumps(result))


def found(run: Path) -> list[str]:
    return [os.path.relpath(path, run) for path in find_checkpoints(str(run))]


@pytest.mark.parametrize("place", ["code/out", "checkpoints", "code"])
@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_other_formats_are_left_out_at_once(tmp_path: Path, names: tuple[str, ...], place: str) -> None:
    write(tmp_path / place / "checkpoint-10", names)
    assert found(tmp_path) == []


@pytest.mark.parametrize("names", TRAINER.values(), ids=TRAINER)
def test_an_interrupted_save_of_trainer_stays_broken(tmp_path: Path, names: tuple[str, ...]) -> None:
    folder = write(tmp_path / "checkpoints" / "checkpoint-10", names)
    os.utime(folder, (1050, 1050))
    for name in names:
        os.utime(folder / name, (1050, 1050))
    job(tmp_path, 1, began=1000, last_step=1049, exit=143, stopped=True)
    assert found(tmp_path) == ["checkpoints/checkpoint-10"]
    assert "in progress or was interrupted" in published.verify(str(folder))


def test_an_interrupted_save_beside_other_formats_is_one_too(tmp_path: Path) -> None:
    write(tmp_path / "code/out/checkpoint-10", ACCELERATE)
    write(tmp_path / "code/out/checkpoint-20", ("model.safetensors",))
    assert found(tmp_path) == []
    write(tmp_path / "code/other/checkpoint-20", ("model.safetensors",))
    assert found(tmp_path) == ["code/other/checkpoint-20"]


def test_an_interrupted_save_beside_a_trainer_checkpoint_is_broken(tmp_path: Path) -> None:
    published.publish(str(save(tmp_path / "code" / "out", 10)))
    folder = write(tmp_path / "code/out/checkpoint-20", ("model.safetensors",))
    job(tmp_path, 1, began=0, last_step=os.stat(folder).st_mtime + 100, exit=143, stopped=True)
    assert found(tmp_path) == ["code/out/checkpoint-20", "code/out/checkpoint-10"]


@pytest.mark.parametrize("newest", [True, False])
def test_a_save_after_which_its_job_went_on_is_complete(tmp_path: Path, newest: bool) -> None:
    folder = write(tmp_path / "code/out/checkpoint-10", ("adapter_model.safetensors", "adapter_config.json"))
    now = os.stat(folder).st_mtime
    job(tmp_path, 1, began=now - 100, last_step=now + 10, newest=newest, exit=143, stopped=True)
    if not newest:
        job(tmp_path, 2, began=now + 20)
    assert found(tmp_path) == []


def test_steps_of_a_later_job_do_not_complete_the_save_of_an_earlier_one(tmp_path: Path) -> None:
    folder = write(tmp_path / "code/out/checkpoint-10", ("model.safetensors",))
    now = os.stat(folder).st_mtime
    job(tmp_path, 1, began=now - 100, last_step=now - 1, newest=False, exit=137)
    job(tmp_path, 2, began=now + 20, last_step=now + 50)
    assert found(tmp_path) == ["code/out/checkpoint-10"]


@pytest.mark.parametrize(
    "names",
    [
        ACCELERATE,
        ("adapter_model.safetensors",),
        ("unet/model.safetensors",),
        ("model.safetensors", "trainer_state.json"),
    ],
)
def test_no_folder_of_the_script_fails_a_job_that_succeeded(tmp_path: Path, names: tuple[str, ...]) -> None:
    published.publish(str(save(tmp_path / "code" / "out", 10)))
    write(tmp_path / "code/out/checkpoint-20", names)
    job(tmp_path, 1, began=0, exit=0)
    assert found(tmp_path) == ["code/out/checkpoint-10"]


def test_a_damaged_checkpoint_of_trainer_stays_broken_after_success(tmp_path: Path) -> None:
    folder = save(tmp_path / "code" / "out", 10)
    published.publish(str(folder))
    (folder / "trainer_state.json").unlink()
    unpublished = save(tmp_path / "code" / "out", 20)
    (unpublished / "optimizer.pt").unlink()
    job(tmp_path, 1, began=0, exit=0)
    assert found(tmp_path) == ["code/out/checkpoint-20", "code/out/checkpoint-10"]
    assert "trainer_state.json" in published.verify(str(folder))


def test_a_run_whose_script_saves_in_its_own_format_can_be_started_again(bench: Bench) -> None:
    bench.start("--steps", 3, "--exit", 1)
    until(lambda: bench.survey().result, "the end")
    write(Path(bench.layout.code) / "out" / "checkpoint-10", ACCELERATE)
    assert bench.survey().checkpoints == ()
    with pytest.raises(RemoteFault, match="was saved") as fault:
        prepare_resume(bench.host, PROJECT, bench.run)
    assert fault.value.exit_code is ExitCode.CHECKPOINT
