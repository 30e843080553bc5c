"""`payload.pyz train SPEC`: one training run of the built-in trainer, from its spec to an exported adapter."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from typing import List, Mapping, Optional, Sequence

import torch
import transformers

from remote.payload.files.atomic import write_atomic
from remote.payload.training.base_model import BaseModel, checkpoint_layers, load_model, read_base
from remote.payload.training.batches import EpochOrder, tokens_of_steps
from remote.payload.training.collator import Collator, check_labels
from remote.payload.training.device import find_device
from remote.payload.training.evaluate import evaluate
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.generate import Generator
from remote.payload.training.job_process import read_spec, run_job
from remote.payload.training.memory import Estimator
from remote.payload.training.memory_plan import check_memory, plan_memory, plan_without_estimate
from remote.payload.training.preflight import ClipReader, clip_reader, usable_recordings
from remote.payload.training.process_group import leave_process_group
from remote.payload.training.prompts import target_of
from remote.payload.training.recordings import Recording, read_recordings
from remote.payload.training.reporting import Reporter
from remote.payload.training.revisions import pin_revisions, read_commits
from remote.payload.training.samples import SampleSet, make_samples
from remote.payload.training.saving import Publisher, check_resume, export_adapter, resume_point, warn_of_other_steps
from remote.payload.training.sharding import shard_base
from remote.payload.training.stop_request import StopRequest
from remote.payload.training.tasks import example_of
from remote.payload.training.tiny_models import tiny_model
from remote.payload.training.trackers import FINISH_S, STOP_S, Tracker, close_trackers, name_run, start_trackers
from remote.payload.training.trainer import AudioTrainer, training_arguments
from remote.payload.training.validation import Validation
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout
from remote.protocol.precision import announce
from remote.protocol.training import TASKS, TINY_PREFIX, MemoryPlan, TrainingPaths, TrainingSpec
from remote.protocol.values import dumps

log = logging.getLogger("halfstep")
FIRST_STEPS = 32
"""The memory plan lists the tokens of this many steps. A proof takes fewer steps."""
STILL_SENDING: List[str] = []
"""Trackers that have not sent everything yet at the end of the training."""


@dataclass(frozen=True)
class Prepared:
    """All parts of a training run except the weights, loaded and checked."""

    base: BaseModel
    collator: Collator
    training: SampleSet
    evaluation: Optional[SampleSet]
    validation: Optional[SampleSet] = None


def main(spec_path: str) -> int:
    """Train according to the spec and return the exit code."""

    def work(stop: StopRequest) -> None:
        spec = read_spec(TrainingSpec, spec_path)
        train(replace(spec, paths=fill_paths(spec.paths, os.environ)), stop)

    code = run_job(work, "stopped; the run can resume from its newest checkpoint")
    if STILL_SENDING:
        # A tracker that sends data at the end of the process would wait for its server without limit.
        sys.stdout.flush()
        os._exit(code)
    return code


def fill_paths(paths: TrainingPaths, environment: Mapping[str, str]) -> TrainingPaths:
    """Return the paths. Empty paths are filled from the job's environment.

    Raises TrainingFailed if neither names a run folder.
    """
    run = paths.run or environment.get("HALFSTEP_RUN_DIR", "")
    if not run:
        raise TrainingFailed("spec-unreadable", "neither the spec nor HALFSTEP_RUN_DIR names the run's folder")
    layout = RunLayout(run)
    return TrainingPaths(
        run=run,
        checkpoints=paths.checkpoints or environment.get("HALFSTEP_OUTPUT_DIR", layout.checkpoints),
        tensorboard=paths.tensorboard or environment.get("HALFSTEP_TENSORBOARD_DIR", layout.tensorboard),
        adapter=paths.adapter or layout.adapter,
        cache=paths.cache or f"{run}/cache",
        resume_from=paths.resume_from or environment.get("HALFSTEP_RESUME_FROM", ""),
    )


def train(spec: TrainingSpec, stop: StopRequest) -> None:
    """Train and export the adapter, and evaluate it if the spec requests that. Raises TrainingFailed or Preempted."""
    if spec.paths.resume_from:
        check_resume(spec.paths.resume_from)
    for folder in (spec.paths.run, spec.paths.checkpoints, spec.paths.tensorboard, spec.paths.cache):
        os.makedirs(folder, exist_ok=True)
    limit_threads(spec)
    log.info("%s", announce(spec.precision))
    spec = pin_revisions(spec)
    prepared = prepare(spec)
    arguments = training_arguments(spec, device="cuda" if torch.cuda.is_available() else "cpu")
    resume_from = resume_point(spec.paths, arguments)
    plan = plan_step_memory(spec, prepared, arguments)
    reporter = Reporter(spec.paths.run, spec.paths.tensorboard, plan.describe())
    trackers = start_trackers(spec.train.report_to, spec.paths.run) if arguments.process_index == 0 else []
    name_run(arguments, spec.paths.run)
    trainer = build_trainer(spec, prepared, plan, arguments, stop, reporter, trackers)
    if resume_from:
        warn_of_other_steps(resume_from, len(trainer.steps))
    limit_s = STOP_S
    try:
        trainer.train(resume_from_checkpoint=resume_from or None)
        limit_s = FINISH_S
    finally:
        STILL_SENDING.extend(close_trackers(trackers, limit_s))
    first = trainer.is_world_process_zero()
    leave_process_group(trainer)
    stop.settle()
    if not first:
        return
    step = trainer.state.global_step
    if trainer.validation is not None:
        step = trainer.validation.restore_best(step)
    base, commits = f"{spec.model.id}@{spec.model.revision}", read_commits(spec.paths.run)
    digest = export_adapter(trainer.model, spec.paths.adapter, step=step, base=base, revisions=commits)
    log.info("adapter in %s, sha256 %s", spec.paths.adapter, digest)
    if prepared.evaluation is not None:
        model = trainer.accelerator.unwrap_model(trainer.model)
        generator = Generator(model, prepared.base, prepared.collator, prepared.evaluation, spec, trainer.args.device)
        evaluate(generator, digest, step, reporter.refresh_progress)


def limit_threads(spec: TrainingSpec) -> None:
    """Limit a tiny model to one thread, because its matrices are too small for more threads.

    On busy cores, a step took 0.4 s with one thread and 15 s with two threads, which wait for each other.
    """
    if spec.model.id.startswith(TINY_PREFIX):
        torch.set_num_threads(1)


def prepare(spec: TrainingSpec) -> Prepared:
    """Read and check the data, load tokenizer and extractor, make the samples and verify their labels."""
    recordings = read_recordings(spec.data, spec.data.split)[: spec.data.samples]
    base = read_base(spec.model, model_source(spec, recordings))
    reader = clip_reader(base, spec)
    collator = Collator(base.family, base.extractor, base.pad_id)
    training = _samples(spec, recordings, base, reader)
    items = [training[i] for i in training.epoch(0)[: spec.train.batch_size]]
    share = check_labels(collator(items), [sample for sample, _ in items], base.tokenizer)
    log.info(
        "%d recordings, %d samples, longest %d tokens, %.1f%% of the positions labelled",
        len(training.by_recording), len(training), max(training.lengths), 100 * share,
    )  # fmt: skip
    evaluation = read_evaluation_samples(spec, base, reader) if spec.train.evaluate else None
    validation = read_validation_samples(spec, base, reader) if spec.train.eval_steps else None
    return Prepared(base, collator, training, evaluation, validation)


def model_source(spec: TrainingSpec, recordings: List[Recording]) -> str:
    """Return the argument of `from_pretrained`. Creates a tiny model if needed."""
    if not spec.model.id.startswith(TINY_PREFIX):
        return spec.model.id
    texts = [target_of(task, recording) for recording in recordings for task in TASKS]
    for task in sorted(set(spec.data.tasks) - set(TASKS)):
        examples = (example_of(task, recording, spec.data.templates) for recording in recordings)
        texts += [text for example in examples if example for text in example]
    return tiny_model(spec.model.id, spec.paths.cache, [text for text in texts if text])


def _samples(spec: TrainingSpec, recordings: List[Recording], base: BaseModel, reader: ClipReader) -> SampleSet:
    recordings = usable_recordings(recordings, reader, spec.data.max_skipped)
    data = spec.data
    samples = make_samples(
        recordings, data.tasks, base.family, base.tokenizer, reader, data.templates, data.audio_position
    )
    if not len(samples):
        raise TrainingFailed("data-empty", f"no recording is annotated for {', '.join(spec.data.tasks)}")
    return samples


def read_evaluation_samples(spec: TrainingSpec, base: BaseModel, reader: ClipReader) -> SampleSet:
    """Return the samples that an evaluation answers."""
    recordings = read_recordings(spec.data, spec.data.evaluation_split or "test")[: spec.evaluation.samples]
    return _samples(spec, recordings, base, reader)


def read_validation_samples(spec: TrainingSpec, base: BaseModel, reader: ClipReader) -> SampleSet:
    """Return the samples whose loss is measured during training. Raises TrainingFailed without a validation split."""
    if spec.data.validation_split is None:
        raise TrainingFailed("data-empty", "train.eval_steps needs data.validation_split", exit_code=ExitCode.USAGE)
    recordings = read_recordings(spec.data, spec.data.validation_split)[: spec.data.validation_samples]
    return _samples(spec, recordings, base, reader)


def plan_step_memory(spec: TrainingSpec, prepared: Prepared, arguments: transformers.TrainingArguments) -> MemoryPlan:
    """Plan the memory of a training step, before any weight is loaded, and write the plan to the run's folder.

    Raises TrainingFailed if the model will not fit on the card.
    """
    device = find_device(spec, arguments.device)
    samples, loop = prepared.training.samples, spec.train
    estimator = Estimator(
        prepared.base,
        spec.precision,
        spec.model.adapter,
        spec.lora,
        on_card=device.is_card,
        processes=arguments.world_size,
        shard_base=is_sharded(spec, arguments),
    )
    orders = epoch_orders(spec, prepared.training, arguments.world_size)
    try:
        plan = plan_memory(loop, samples, device, estimator.layers, estimator.peak_bytes, orders)
    except RuntimeError as error:
        # torch raises this for an operation that fake tensors do not support.
        log.info("memory: not estimated: %s", str(error).splitlines()[0])
        plan = plan_without_estimate(loop, estimator.layers)
    tokens = tokens_of_steps(orders, prepared.training.lengths, step_samples(spec, arguments.world_size))
    plan = replace(plan, first_tokens=tuple(tokens[:FIRST_STEPS]), mean_tokens=sum(tokens) / len(tokens))
    if arguments.local_process_index == 0:
        write_atomic(RunLayout(spec.paths.run).memory, dumps(plan) + b"\n")
    log.info("memory: %s", plan.describe())
    check_memory(plan, device)
    return plan


def sample_order(spec: TrainingSpec, samples: SampleSet, processes: int) -> EpochOrder:
    """Return the order of the samples in each epoch."""
    return EpochOrder(samples.epoch, samples.lengths, step_samples(spec, processes), spec.train.seed)


def step_samples(spec: TrainingSpec, processes: int) -> int:
    """Return the number of samples of an optimizer step."""
    return spec.train.batch_size * spec.train.gradient_accumulation * processes


def epoch_orders(spec: TrainingSpec, samples: SampleSet, processes: int) -> List[List[int]]:
    """Return the samples of each planned epoch in their order."""
    order = sample_order(spec, samples, processes)
    orders = []
    for epoch in range(spec.train.epochs):
        order.set_epoch(epoch)
        orders.append(list(order))
    return orders


def is_sharded(spec: TrainingSpec, arguments: transformers.TrainingArguments) -> bool:
    """Return True if several processes share the frozen weights. A single process keeps all weights."""
    return spec.train.shard_base and arguments.world_size > 1


def build_trainer(
    spec: TrainingSpec,
    prepared: Prepared,
    plan: MemoryPlan,
    arguments: transformers.TrainingArguments,
    stop: StopRequest,
    reporter: Reporter,
    trackers: Sequence[Tracker] = (),
) -> AudioTrainer:
    """Return the Trainer with model, adapter and callbacks."""
    arguments.per_device_eval_batch_size = plan.micro_batch
    transformers.set_seed(spec.train.seed)
    # A sharded model need not fit on one card.
    device = "cpu" if is_sharded(spec, arguments) else str(arguments.device)
    model = load_model(prepared.base, spec.precision, spec.model.adapter, spec.lora, device)
    checkpoint_layers(model, plan.checkpointed)
    if is_sharded(spec, arguments):
        log.info("this process keeps %.1f GiB of the decoder layers", shard_base(model, arguments.device) / 2**30)
    samples, loop = prepared.training, spec.train
    publisher = Publisher(loop.keep_checkpoints, spec.precision.scaler)
    trainer = AudioTrainer(
        plan=spec.precision,
        order=sample_order(spec, samples, arguments.world_size),
        memory=plan,
        model=model,
        args=arguments,
        train_dataset=samples,
        # Memory is planned for shared rows only if micro-batches have a fixed number of samples.
        data_collator=replace(prepared.collator, shares_prefixes=not plan.positions),
        callbacks=[stop, reporter, publisher, *trackers],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    for callback in (reporter, publisher):
        callback.trainer = trainer
    if prepared.validation is not None:
        trainer.validation = Validation(prepared.validation, prepared.base, prepared.collator, spec)
        trainer.validation.trainer, trainer.validation.reporter = trainer, reporter
        trainer.add_callback(trainer.validation)
    return trainer
