"""Recognise `checkpoint-N` folders that are no trainer checkpoints: the script wrote them in a format of its own."""

from __future__ import annotations

import os
import re
from typing import Iterable, List, Set, Tuple

from remote.payload.checkpoints.files import INCOMPLETE, MANIFEST, OPTIMIZER, RANK_STATE, STATE, list_names
from remote.payload.files.records import read_record
from remote.payload.output.job_folder import newest_job
from remote.protocol.jobs import JobResult, Progress, Started
from remote.protocol.layout import RunLayout

OTHER_FORMAT = re.compile(
    # accelerate/checkpointing.py and accelerator.py, `save_state`
    r"random_states_\d+\.pkl$|(optimizer_\d+|scheduler(_\d+)?|sampler(_\d+)?|dl_state_dict(_\d+)?)\.bin$"
    r"|custom_checkpoint_\d+\.pkl$|pytorch_model/"
    # deepspeed/runtime/engine.py, `save_checkpoint`: Trainer has these files in a folder global_stepN
    r"|(zero_pp_rank_\d+_)?(bf16_)?mp_rank_\d+_"
    # torch/distributed/checkpoint: Trainer has these files in folders such as pytorch_model_fsdp_0
    r"|\.metadata$|__\d+_\d+\.distcp$"
)
"""The files that Trainer never writes at these places of a checkpoint-N, and that are written before the save ends."""
CLOCK_TOLERANCE_S = 2.0


def without_own_formats(run: RunLayout, folders: List[str]) -> List[str]:
    """Return the checkpoint-N folders of a run that transformers' Trainer or halfstep wrote, or may be writing.

    Trainer writes trainer_state.json last (trainer.py, `_save_checkpoint`). A folder without this file is an
    interrupted save of Trainer, or complete and in another format, such as that of `Accelerator.save_state`. It has
    another format if it contains such files, or stands beside such a folder and beside no trainer checkpoint. It also
    has another format if its save has ended: the newest job succeeded, or the job that wrote the folder made another
    optimizer step after the folder's last change.
    """
    succeeded = _has_succeeded(run)
    unclear = [path for path in folders if not _exists(path, MANIFEST) and not _exists(path, STATE)]
    own = _own_among(run, unclear, _parents(path for path in folders if path not in unclear), succeeded)
    if succeeded:
        own |= {path for path in folders if path not in unclear and _is_weights_only(path)}
    return [path for path in folders if path not in own]


def _own_among(run: RunLayout, unclear: List[str], by_trainer: Set[str], succeeded: bool) -> Set[str]:
    """Return the folders in another format among those without trainer_state.json.

    `by_trainer` are the parents of trainer checkpoints.
    """
    names = {path: list_names(path) for path in unclear}
    own = {path for path in unclear if any(map(OTHER_FORMAT.match, names[path]))}
    by_script = _parents(own)
    remaining = [path for path in unclear if path not in own and INCOMPLETE not in names[path]]
    spans = _spans(run) if remaining else []
    for path in remaining:
        parent, changed = os.path.dirname(path), _changed_unix(path, names[path])
        has_ended = parent in by_script or any(began <= changed < last_step for began, last_step in spans)
        if succeeded or (parent not in by_trainer and has_ended):
            own.add(path)
    return own


def _exists(folder: str, name: str) -> bool:
    return os.path.lexists(os.path.join(folder, name))


def _is_weights_only(folder: str) -> bool:
    """Return True for a complete save with Trainer's `save_only_model`, from which no job can resume."""
    if _exists(folder, MANIFEST):
        return False
    names = list_names(folder)
    state = ("scheduler.pt", "rng_state.pth")
    return not any(name in state or OPTIMIZER.match(name) or RANK_STATE.match(name) for name in names)


def _parents(paths: Iterable[str]) -> Set[str]:
    return {os.path.dirname(path) for path in paths}


def _has_succeeded(run: RunLayout) -> bool:
    number = newest_job(run)
    result = read_record(run.job(number).result, JobResult) if number else None
    return result is not None and result.exit == 0 and not (result.stopped or result.preempted)


def _spans(run: RunLayout) -> List[Tuple[float, float]]:
    """Return, for each job, when it began and the time of its last optimizer step, less CLOCK_TOLERANCE_S."""
    spans: List[Tuple[float, float]] = []
    for number in range(newest_job(run), 0, -1):
        job = run.job(number)
        started = read_record(job.supervisor, Started)
        if started is not None:
            # The progress of the newest job is in the run's folder until the next job begins.
            progress = read_record(job.progress if spans else run.progress, Progress)
            last_step = progress.at_unix if progress is not None else 0.0
            spans.append((started.started_unix - CLOCK_TOLERANCE_S, last_step - CLOCK_TOLERANCE_S))
    return spans


def _changed_unix(folder: str, names: List[str]) -> float:
    """Return when the folder or a file in it was changed last."""
    times = [0.0]
    for path in (folder, *(os.path.join(folder, name) for name in names)):
        try:
            times.append(os.lstat(path).st_mtime)
        except OSError:
            continue
    return max(times)
