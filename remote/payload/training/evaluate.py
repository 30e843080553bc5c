"""Evaluate at the end of training: compare the model's answers to held-out samples with the annotations."""

from __future__ import annotations

import json
import logging
import os
from typing import Any, Callable, Dict, List

from torch.utils.tensorboard import SummaryWriter

from remote.payload.files.atomic import write_atomic
from remote.payload.training.answers import AnswerLog, write_answers
from remote.payload.training.generate import Generator
from remote.payload.training.samples import SampleSet
from remote.payload.training.scores import Answer, Metrics, judge_answers
from remote.protocol.evaluation import ADAPTER, VARIANTS

METRICS = "metrics.json"
log = logging.getLogger("halfstep")


def evaluate(generator: Generator, adapter_sha256: str, step: int, refresh_progress: Callable[[], None]) -> None:
    """Generate the answer to every sample.

    Write the scores to metrics.json and TensorBoard, the answers to answers.jsonl.
    """
    spec, samples = generator.spec, generator.samples
    generator.model.gradient_checkpointing_disable()
    answers = AnswerLog(spec.paths.run)
    generator.answer_all(adapter_sha256, answers, refresh_progress)
    metrics = judge_model(adapter_sha256, samples, answers, resamples=0)
    nested = json.dumps({"step": step, **as_nested(metrics)}, indent=1)
    write_answers(spec.paths.run, ((ADAPTER, *row) for row in answered(adapter_sha256, samples, answers)))
    write_atomic(os.path.join(spec.paths.run, METRICS), nested.encode() + b"\n")
    with SummaryWriter(spec.paths.tensorboard) as writer:
        write_scalars(writer, "eval", metrics, step)
    log.info("%s", render_metrics(metrics))


def answered(key: str, samples: SampleSet, answers: AnswerLog) -> List[Any]:
    """Return each sample with the answer of the model that `key` identifies."""
    return [(sample, answers.known[key, sample.id]) for sample in samples.samples]


def judge_model(key: str, samples: SampleSet, answers: AnswerLog, *, resamples: int, seed: int = 0) -> Metrics:
    """Return the metrics of the answers that one model gave to all samples."""
    rows = [Answer(one.task, one.recording, text, one.target) for one, text in answered(key, samples, answers)]
    return judge_answers(rows, resamples=resamples, seed=seed)


def write_scalars(writer: Any, prefix: str, metrics: Metrics, step: int) -> None:
    """Write each defined metric as a TensorBoard scalar `PREFIX/NAME`."""
    for name, estimate in metrics.items():
        if estimate.value is not None:
            writer.add_scalar(f"{prefix}/{name}", estimate.value, step)


def render_metrics(metrics: Metrics) -> str:
    """Return the main metrics that are defined, as one line."""
    defined = {name: one.value for name, one in metrics.items() if not name.endswith(VARIANTS)}
    return "  ".join(f"{name} {value:.3f}" for name, value in defined.items() if value is not None)


def as_nested(metrics: Metrics) -> Dict[str, Any]:
    """Return the values as nested dicts by task, aspect and metric, with None for an undefined metric."""
    nested: Dict[str, Any] = {}
    for name, estimate in metrics.items():
        *folders, last = name.split("/")
        innermost = nested
        for folder in folders:
            innermost = innermost.setdefault(folder, {})
        innermost[last] = estimate.value
    return nested
