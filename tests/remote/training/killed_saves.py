"""`python -m tests.remote.training.killed_saves SPEC KILLS`: kill the trainer at system calls inside its save.

torch is imported once and the model loaded once. A training that has reached the save is forked for each kill point.
After each kill, the job's own check chooses a checkpoint, and the loaded trainer is forked to resume from it, once for
checkpoints of equal content. The output is one JSON object with the digests of the adapters: of the uninterrupted
training, and of the resumed training after each kill.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from remote.payload.checkpoints.files import MANIFEST, VERDICT
from remote.payload.jobs.resume import prepare as prepare_resume
from remote.payload.processes.identity import boot_id
from remote.payload.request.call import Call
from remote.payload.training.job_process import read_spec
from remote.payload.training.memory_plan import plan_without_estimate
from remote.payload.training.reporting import Reporter
from remote.payload.training.run import build_trainer, limit_threads
from remote.payload.training.run import prepare as read_data
from remote.payload.training.saving import export_adapter
from remote.payload.training.stop_request import StopRequest
from remote.payload.training.trainer import training_arguments
from remote.protocol.jobs import JobResult, JobSpec, ResumePoint, Started
from remote.protocol.layout import RunLayout
from remote.protocol.training import TrainingSpec
from remote.protocol.values import decode, dumps
from tests.faults.kill_points import kill_at, kill_points, trace_running

KillPoint = tuple[str, int]
"""A system call, and how many of that name the process has made with it."""
SAVE = 2
"""The step whose save is killed; a checkpoint of step 1 is there, and is deleted at the end of the save."""
ANY_TRACER = (0x59616D61, ctypes.c_ulong(-1))
"""Arguments of prctl: PR_SET_PTRACER, PR_SET_PTRACER_ANY. With Yama, only a parent may trace otherwise."""


class KilledSave(TrainerCallback):  # type: ignore[misc]
    """Forks the training before the save of step `SAVE`, once per kill point, and keeps what each kill left."""

    def __init__(self, run: Path, kept: Path, kills: int) -> None:
        self.run = run
        self.kept = kept
        self.kills = kills
        self.is_fork = False

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step != SAVE or not args.should_save:
            return
        before, log = self.kept / "before", self.kept / "calls"
        shutil.copytree(self.run, before)
        if self._save_in_fork(log) or self.is_fork:
            return
        for number, kill_point in enumerate(spread(list(kill_points(log, self.run)), self.kills)):
            self._restore(before)
            status = self._save_in_fork(Path(os.devnull), kill_at(kill_point))
            if self.is_fork:
                return
            assert status == -signal.SIGKILL, (kill_point, status)
            shutil.copytree(self.run, self.kept / f"{number}-{'-'.join(map(str, kill_point))}")
        self._restore(before)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.is_fork:
            os._exit(0)

    def _save_in_fork(self, log: Path, *inject: str) -> int:
        """Return the status of a fork that was traced until the end of its save. In the fork itself, return 0."""
        mine, its = os.pipe()
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(*ANY_TRACER)
            self.is_fork = True
            os.close(its)
            os.read(mine, 1)
            return 0
        with trace_running(child, log, *inject):
            os.close(its)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.close(mine)
        return status

    def _restore(self, before: Path) -> None:
        shutil.rmtree(self.run)
        shutil.copytree(before, self.run)


def spread(points: Sequence[KillPoint], count: int) -> list[KillPoint]:
    """Return `count` of the calls: all that neither open nor write a file, and others at equal distances."""
    many = [point for point in points if point[0] in {"openat", "write", "writev"}]
    wanted = count - (len(points) - len(many))
    chosen = {many[i * len(many) // wanted] for i in range(wanted)}
    return [point for point in points if point in chosen or point not in many]


def load(spec: TrainingSpec) -> Any:
    """Return the trainer as `train` builds it, with its model loaded. Memory is not planned, which takes seconds."""
    limit_threads(spec)
    data = read_data(spec)
    arguments = training_arguments(spec, device="cpu")
    plan = plan_without_estimate(spec.train, 4)
    return build_trainer(spec, data, plan, arguments, StopRequest(), Reporter(spec.paths.run, spec.paths.tensorboard))


def train(trainer: Any, spec: TrainingSpec, resume_from: str) -> str:
    """Train to the end and return the SHA-256 of the adapter."""
    trainer.train(resume_from_checkpoint=resume_from or None)
    return export_adapter(trainer.model, spec.paths.adapter, step=trainer.state.global_step, base="tiny")


def in_fork(work: Callable[[], str]) -> str:
    """Run `work` in a fork of this process and return its result."""
    mine, its = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.write(its, work().encode())
            status = 0
        finally:
            os._exit(status)
    os.close(its)
    with open(mine, encoding="utf-8") as answer:
        text = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return text


def resume_point(run: Path) -> ResumePoint:
    """Return the resume point of a run whose trainer was killed."""
    job = RunLayout(str(run)).job(1)
    Path(job.root).mkdir(parents=True, exist_ok=True)
    Path(job.spec).write_bytes(dumps(JobSpec(run.name, 1, "f", ())))
    Path(job.supervisor).write_bytes(dumps(Started(0, 0, boot_id())))
    Path(job.result).write_bytes(dumps(JobResult(137, signal=9)))
    call: Any = Call("", {"project": run.parents[1].name, "run": run.name}, str(run.parents[3]), "", None)
    return decode(ResumePoint, prepare_resume(call))


def digest_of(checkpoint: Path) -> str:
    """Return a digest of everything that a training reads from a checkpoint."""
    files = ((path.name, path.read_bytes()) for path in sorted(checkpoint.iterdir()))
    return hashlib.sha256(repr([pair for pair in files if pair[0] not in (MANIFEST, VERDICT)]).encode()).hexdigest()


def main() -> None:
    spec = read_spec(TrainingSpec, sys.argv[1])
    run, kept = Path(spec.paths.run), Path(spec.paths.cache) / "kept"
    kept.mkdir(parents=True)
    run.mkdir(parents=True)
    trainer = load(spec)

    def uninterrupted() -> str:
        trainer.add_callback(KilledSave(run, kept, int(sys.argv[2])))
        return train(trainer, spec, "")

    whole = in_fork(uninterrupted)
    killed: list[dict[str, Any]] = []
    adapters: dict[str, str] = {}
    for left in sorted(kept.glob("*-*"), key=lambda path: int(path.name.partition("-")[0])):
        shutil.rmtree(run)
        left.rename(run)
        point = resume_point(run)
        content = digest_of(Path(point.path))
        if content not in adapters:
            adapters[content] = in_fork(functools.partial(train, trainer, spec, point.path))
        row = {"call": left.name, "step": point.checkpoint.step, "aside": len(point.broken)}
        killed.append({**row, "adapter": adapters[content]})
    print(json.dumps({"whole": whole, "resumed": len(adapters), "killed": killed}))


if __name__ == "__main__":
    main()
