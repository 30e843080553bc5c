"""`payload.pyz train SPEC`: one training run of the built-in trainer, from its spec to an exported adapter."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from dataclasses import dataclass, replace
from typing import List, Mapping, Optional

import torch
import transformers

from remote.payload.training.base_model import BaseModel, load_model, read_base
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import Collator, check_labels
from remote.payload.training.evaluate import evaluate
from remote.payload.training.failure import Preempted, TrainingFailed
from remote.payload.training.features import FeatureCache, extractor_settings
from remote.payload.training.preflight import ClipReader, check_clips
from remote.payload.training.process_group import leave_process_group
from remote.payload.training.prompts import target_of
from remote.payload.training.recordings import Recording, read_recordings
from remote.payload.training.reporting import Reporter
from remote.payload.training.samples import SampleSet, make_samples
from remote.payload.training.saving import Publisher, check_resume, export_adapter
from remote.payload.training.stop_request import StopRequest
from remote.payload.training.tiny_models import PREFIX, tiny_model
from remote.payload.training.trainer import AudioTrainer, training_arguments
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout
from remote.protocol.precision import announce
from remote.protocol.training import TASKS, TrainingPaths, TrainingSpec
from remote.protocol.values import decode

log = logging.getLogger("halfstep")


@dataclass(frozen=True)
class Prepared:
    """Everything but the weights, loaded and checked."""

    base: BaseModel
    collator: Collator
    training: SampleSet
    evaluation: Optional[SampleSet]


def main(spec_path: str) -> int:
    """Train according to the spec and return the exit code; a failure is one line with its name on stderr."""
    first = os.environ.get("RANK", "0") == "0"
    logging.basicConfig(level=logging.INFO if first else logging.ERROR, stream=sys.stdout, format="%(message)s")
    # Names that transformers 5.23 deprecates work in every 5.x; its warnings would drown the user's own.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    stop = StopRequest()
    stop.listen()
    try:
        train(read_spec(spec_path), stop)
    except Preempted:
        log.info("stopped; the run can resume from its newest checkpoint")
        return ExitCode.PREEMPTED
    except TrainingFailed as failed:
        hint = f" (try: {failed.hint})" if failed.hint else ""
        print(f"halfstep stopped this training: {failed.name}: {failed.message}{hint}", file=sys.stderr, flush=True)
        return failed.exit_code
    return ExitCode.OK


def read_spec(argument: str) -> TrainingSpec:
    """Read the spec from that file, or from the argument itself if it is JSON. Raises TrainingFailed.

    Empty paths are filled from the job's environment.
    """
    text = argument
    try:
        if not argument.startswith("{"):
            with open(argument, encoding="utf-8") as file:
                text = file.read()
        spec = decode(TrainingSpec, json.loads(text))
    except (OSError, ValueError) as error:
        raise TrainingFailed("spec-unreadable", f"{argument[:200]}: {error}", exit_code=ExitCode.BUG) from error
    return replace(spec, paths=fill_paths(spec.paths, os.environ))


def fill_paths(paths: TrainingPaths, environment: Mapping[str, str]) -> TrainingPaths:
    """Return the paths, empty ones filled from the job's environment. Raises TrainingFailed without a run folder."""
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
    """Train and export the adapter, and evaluate it if the spec says so. Raises TrainingFailed or Preempted."""
    if spec.paths.resume_from:
        check_resume(spec.paths.resume_from)
    for folder in (spec.paths.run, spec.paths.checkpoints, spec.paths.tensorboard, spec.paths.cache):
        os.makedirs(folder, exist_ok=True)
    if spec.model.id.startswith(PREFIX):
        # Matrices this small gain nothing from a second thread. On busy cores a step of 0.4 s with one thread took 15 s
        # with two, which wait for each other.
        torch.set_num_threads(1)
    log.info("%s", announce(spec.precision))
    prepared = prepare(spec)
    reporter = Reporter(spec.paths.run, spec.paths.tensorboard)
    trainer = build_trainer(spec, prepared, stop, reporter)
    trainer.train(resume_from_checkpoint=spec.paths.resume_from or None)
    first = trainer.is_world_process_zero()
    leave_process_group(trainer)
    stop.settle()
    if not first:
        return
    digest = export_adapter(
        trainer.model, spec.paths.adapter, step=trainer.state.global_step, base=f"{spec.model.id}@{spec.model.revision}"
    )
    log.info("adapter in %s, sha256 %s", spec.paths.adapter, digest)
    if prepared.evaluation is not None:
        evaluate(trainer, prepared.evaluation, prepared.base, prepared.collator, spec, reporter.refresh_progress)


def prepare(spec: TrainingSpec) -> Prepared:
    """Read and check the data, load tokenizer and extractor, make the samples and verify their labels."""
    recordings = read_recordings(spec.data, spec.data.split)[: spec.data.samples]
    base = read_base(spec.model, model_source(spec, recordings))
    cache = FeatureCache(os.path.join(spec.paths.cache, "features"), extractor_settings(base.extractor))
    reader = ClipReader(base, cache)
    collator = Collator(base.family, base.extractor, base.pad_id)
    training = _samples(spec, recordings, base, reader)
    items = [training[i] for i in training.epoch(0)[: spec.train.batch_size]]
    share = check_labels(collator(items), [sample for sample, _ in items], base.tokenizer)
    log.info(
        "%d recordings, %d samples, longest %d tokens, %.1f%% of the positions labelled",
        len(training.by_recording), len(training), max(training.lengths), 100 * share,
    )  # fmt: skip
    return Prepared(base, collator, training, _evaluation(spec, base, reader))


def model_source(spec: TrainingSpec, recordings: List[Recording]) -> str:
    """Return the argument of `from_pretrained`; creates a tiny model if needed."""
    if not spec.model.id.startswith(PREFIX):
        return spec.model.id
    targets = [target_of(task, recording) for recording in recordings for task in TASKS]
    return tiny_model(spec.model.id, spec.paths.cache, [target for target in targets if target])


def _samples(spec: TrainingSpec, recordings: List[Recording], base: BaseModel, reader: ClipReader) -> SampleSet:
    check_clips(recordings, reader)
    samples = make_samples(recordings, spec.data.tasks, base.family, base.tokenizer, reader)
    if not len(samples):
        raise TrainingFailed("data-empty", f"no recording is annotated for {', '.join(spec.data.tasks)}")
    return samples


def _evaluation(spec: TrainingSpec, base: BaseModel, reader: ClipReader) -> Optional[SampleSet]:
    if not spec.train.evaluate:
        return None
    recordings = read_recordings(spec.data, spec.data.evaluation_split or "test")[: spec.data.evaluation_samples]
    return _samples(spec, recordings, base, reader)


def build_trainer(spec: TrainingSpec, prepared: Prepared, stop: StopRequest, reporter: Reporter) -> AudioTrainer:
    """Return the Trainer with model, adapter and callbacks."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments = training_arguments(spec, device=device)
    transformers.set_seed(spec.train.seed)
    model = load_model(prepared.base, spec.precision, spec.model.adapter, spec.lora, str(arguments.device))
    samples = prepared.training
    order = EpochOrder(samples.epoch, samples.lengths, spec.train.batch_size, spec.train.seed)
    publisher = Publisher(spec.train.keep_checkpoints, spec.precision.scaler)
    trainer = AudioTrainer(
        plan=spec.precision,
        order=order,
        model=model,
        args=arguments,
        train_dataset=samples,
        data_collator=prepared.collator,
        callbacks=[stop, reporter, publisher],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    for callback in (reporter, publisher):
        callback.trainer = trainer
    return trainer
