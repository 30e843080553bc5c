"""`payload.pyz evaluate SPEC`: one evaluation of an adapter, from its spec to answers.jsonl and evaluation.json.

Every answer is stored at once. If the job is stopped or killed and started again with the same spec, it generates only
the missing answers.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import logging
import os
import time
from dataclasses import replace
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter

from remote.payload.files.atomic import write_atomic
from remote.payload.files.records import write_record
from remote.payload.training.answers import AnswerLog, write_answers
from remote.payload.training.base_model import BaseModel, load_model, read_base
from remote.payload.training.collator import Collator
from remote.payload.training.evaluate import answered, judge_model, render_metrics, write_scalars
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.generate import Generator
from remote.payload.training.job_process import read_spec, run_job
from remote.payload.training.preflight import clip_reader
from remote.payload.training.recordings import read_recordings
from remote.payload.training.revisions import known_commits, pin_revisions
from remote.payload.training.run import fill_paths, limit_threads, model_source, read_evaluation_samples
from remote.payload.training.samples import SampleSet
from remote.payload.training.saving import ADAPTER_RECORD, ADAPTER_WEIGHTS
from remote.payload.training.stop_request import StopRequest
from remote.protocol.evaluation import ADAPTER, BASE, RESULT, EvaluationResult, EvaluationSpec, ModelScores
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import Progress
from remote.protocol.layout import RunLayout
from remote.protocol.precision import announce
from remote.protocol.training import TINY_PREFIX, AnswerSpec, TrainingSpec
from remote.protocol.values import dumps

LONGEST_WAIT = datetime.timedelta(days=30)
"""The time that the first rank waits for the other ranks. If a rank fails, the launcher ends all ranks."""
log = logging.getLogger("halfstep")


def main(spec_argument: str) -> int:
    """Evaluate according to the spec and return the exit code."""

    def work(stop: StopRequest) -> None:
        del stop
        spec = read_spec(EvaluationSpec, spec_argument)
        training = replace(spec.training, paths=fill_paths(spec.training.paths, os.environ))
        evaluate_adapter(replace(spec, training=training))

    return run_job(work, "stopped; the evaluation can resume, and every answer so far is kept")


def evaluate_adapter(spec: EvaluationSpec) -> None:
    """Generate the missing answers with all ranks. The first rank then writes the scores.

    Raises TrainingFailed if the adapter or the data cannot be used.
    """
    digest = check_adapter(spec.adapter, spec.adapter_sha256)
    training = pin_revisions(spec.training, commits_of(spec.adapter))
    spec = replace(spec, training=training)
    limit_threads(training)
    log.info("%s", announce(training.precision))
    os.makedirs(training.paths.cache, exist_ok=True)
    base, samples = prepare(training)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    answers = AnswerLog(training.paths.run, rank)
    models = (digest, BASE) if training.evaluation.base else (digest,)
    with rank_group(ranks):
        left = [key for key in models if answers.missing(key, samples.samples)]
        log.info("%d of %d answers are left", sum(len(answers.missing(k, samples.samples)) for k in left),
                 len(models) * len(samples))  # fmt: skip
        if left:
            report = progress_writer(training.paths.run, answers, len(models) * len(samples), first=rank == 0)
            answer(spec, left, base, samples, answers, report)
        if ranks > 1:
            dist.barrier()
    if rank == 0:
        answers.refresh()
        write_result(spec, digest, models, samples, answers)


def check_adapter(folder: str, sha256: str) -> str:
    """Return the digest of the adapter's weights. Raises TrainingFailed if they are missing or differ from `sha256`."""
    path = os.path.join(folder, ADAPTER_WEIGHTS)
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        raise TrainingFailed("adapter-missing", f"{path}: {error.strerror}", exit_code=ExitCode.PULL) from None
    if sha256 not in ("", digest):
        raise TrainingFailed("adapter-changed", f"{path} has changed since this job was requested")
    return digest


def prepare(spec: TrainingSpec) -> Tuple[BaseModel, SampleSet]:
    """Load tokenizer and feature extractor, and read and check the recordings."""
    # The tokenizer of a tiny model is trained on the texts of the training data, so these texts are needed here too.
    tiny = spec.model.id.startswith(TINY_PREFIX)
    trained = read_recordings(spec.data, spec.data.split)[: spec.data.samples] if tiny else []
    base = read_base(spec.model, model_source(spec, trained))
    return base, read_evaluation_samples(spec, base, clip_reader(base, spec))


@contextlib.contextmanager
def rank_group(ranks: int) -> Iterator[None]:
    """Join the process group of all ranks, and leave it at the end of the block."""
    if ranks == 1:
        yield
        return
    dist.init_process_group("gloo", timeout=LONGEST_WAIT)
    try:
        yield
    finally:
        dist.destroy_process_group()


def answer(
    spec: EvaluationSpec,
    left: List[str],
    base: BaseModel,
    samples: SampleSet,
    answers: AnswerLog,
    report: Callable[[], None],
) -> None:
    """Load the model with its adapter, and answer the samples with and without the adapter."""
    training = spec.training
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    model = load_model(base, training.precision, spec.adapter, training.lora, str(device))
    collator = Collator(base.family, base.extractor, base.pad_id)
    generator = Generator(model, base, collator, samples, training, device, rank, ranks)
    report()
    for key in left:
        log.info("answering %d prompts with the %s", len(samples), "base model" if key == BASE else "adapter")
        with model.disable_adapter() if key == BASE else contextlib.nullcontext():
            generator.answer_all(key, answers, report)


def progress_writer(run: str, answers: AnswerLog, total: int, *, first: bool) -> Callable[[], None]:
    """Return a function that writes progress.json with the number of answers.

    The first rank calls it after each batch.
    """
    began, before = time.monotonic(), answers.count()

    def report() -> None:
        if first:
            done = answers.count()
            pace = (time.monotonic() - began) / (done - before) if done > before else None
            progress = Progress(done, total, at_unix=time.time(), pace_seconds=pace, unit="answer")
            write_record(RunLayout(run).progress, progress)

    return report


def write_result(
    spec: EvaluationSpec, digest: str, models: Tuple[str, ...], samples: SampleSet, answers: AnswerLog
) -> None:
    """Write answers.jsonl, then the TensorBoard scalars, then evaluation.json."""
    training, decoding = spec.training, spec.training.evaluation
    rows = [(name_of(key), sample, text) for key in models for sample, text in answered(key, samples, answers)]
    write_answers(training.paths.run, rows)
    scores, step = [], step_of(spec.adapter)
    with SummaryWriter(training.paths.tensorboard) as writer:
        for key in models:
            metrics = judge_model(key, samples, answers, resamples=decoding.resamples, seed=decoding.seed)
            write_scalars(writer, "eval" if key != BASE else "eval_base", metrics, step)
            log.info("%s: %s", name_of(key), render_metrics(metrics))
            scores.append(ModelScores(name_of(key), metrics))
    progress_writer(training.paths.run, answers, len(rows), first=True)()
    result = EvaluationResult(
        scores=tuple(scores),
        recordings=len(samples.by_recording),
        answers=len(rows),
        data=spec.data,
        split=training.data.evaluation_split or "test",
        model=training.model.id,
        adapter_sha256=digest,
        rank=rank_of(spec.adapter),
        step=step,
        decoding=describe_decoding(decoding),
        precision=training.precision.mode.value,
        resamples=decoding.resamples,
    )
    write_atomic(os.path.join(training.paths.run, RESULT), dumps(result) + b"\n")


def name_of(key: str) -> str:
    """Return `base` or `adapter` for the key of a model."""
    return BASE if key == BASE else ADAPTER


def describe_decoding(decoding: AnswerSpec) -> str:
    """Return 'greedy' or the parameters of the sampling."""
    if not decoding.temperature:
        return "greedy"
    return f"temperature {decoding.temperature:g}, top-p {decoding.top_p:g}, seed {decoding.seed}"


def step_of(adapter: str) -> int:
    """Return the optimizer step at which the built-in trainer exported the adapter, or 0 if it is unknown."""
    return int(_read_json(os.path.join(adapter, ADAPTER_RECORD)).get("step", 0))


def commits_of(adapter: str) -> Dict[str, str]:
    """Return the commits with which the built-in trainer trained the adapter.

    The result is empty if the commits are unknown.
    """
    return known_commits(_read_json(os.path.join(adapter, ADAPTER_RECORD)))


def rank_of(adapter: str) -> Any:
    """Return the adapter's LoRA rank, or None if it is unknown."""
    return _read_json(os.path.join(adapter, "adapter_config.json")).get("r")


def _read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}
