"""Evaluating the adapter: greedy answers on held-out recordings, compared with their annotations."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils.tensorboard import SummaryWriter

from remote.payload.files.atomic import write_atomic
from remote.payload.training.base_model import BaseModel
from remote.payload.training.collator import Collator
from remote.payload.training.metrics import detection, error_rate, pearson, spearman
from remote.payload.training.prompts import ASPECTS, Transcript, parse_scores, parse_transcript
from remote.payload.training.samples import Sample, SampleSet
from remote.protocol.training import TrainingSpec

METRICS = "metrics.json"
SPARE_TOKENS = 16
REPORT_EVERY = 100
log = logging.getLogger("halfstep")


def evaluate(
    trainer: Any,
    samples: SampleSet,
    base: BaseModel,
    collator: Collator,
    spec: TrainingSpec,
    refresh_progress: Callable[[], None],
) -> None:
    """Answer every sample greedily and write the scores to metrics.json and TensorBoard."""
    answers = []
    for answer in answer_all(trainer, samples, base, collator, spec):
        answers.append(answer)
        if len(answers) % REPORT_EVERY == 0:
            refresh_progress()
            log.info("answered %d of %d", len(answers), len(samples))
    step = trainer.state.global_step
    metrics = judge_answers(answers)
    write_atomic(
        os.path.join(spec.paths.run, METRICS), json.dumps({"step": step, **metrics}, indent=1).encode() + b"\n"
    )
    with SummaryWriter(spec.paths.tensorboard) as writer:
        for name, value in flatten(metrics):
            writer.add_scalar(f"eval/{name}", value, step)
    log.info("%s", "  ".join(f"{name} {value:.3f}" for name, value in flatten(metrics)))


def answer_all(
    trainer: Any, samples: SampleSet, base: BaseModel, collator: Collator, spec: TrainingSpec
) -> Iterator[Tuple[Sample, str]]:
    """Yield each sample with the model's greedy answer, longest prompts first."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    model.eval()
    model.gradient_checkpointing_disable()
    most = max(len(sample.answer) + len(sample.end) for sample in samples.samples) + SPARE_TOKENS
    placeholder = base.tokenizer.convert_tokens_to_ids(base.family.placeholder)
    order = sorted(range(len(samples)), key=lambda i: -len(samples.samples[i].prompt))
    for start in range(0, len(order), spec.train.batch_size):
        items = [samples[i] for i in order[start : start + spec.train.batch_size]]
        inputs = {name: value.to(trainer.args.device) for name, value in collator.prompts(items).items()}
        with torch.no_grad(), _autocast(trainer.args.device, spec):
            made = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=most,
                eos_token_id=items[0][0].end[0],
                pad_token_id=base.pad_id,
                # A placeholder in an answer would need audio features, and none are left.
                suppress_tokens=[placeholder],
                use_cache=True,
            )
        texts = base.tokenizer.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        yield from ((sample, text) for (sample, _), text in zip(items, texts))


def _autocast(device: Any, spec: TrainingSpec) -> Any:
    dtype = spec.precision.autocast_dtype
    return torch.autocast(device.type, dtype=getattr(torch, dtype or "float32"), enabled=dtype is not None)


def judge_answers(answers: List[Tuple[Sample, str]]) -> Dict[str, Any]:
    """Return the scores of the tasks that have answers."""
    judged: Dict[str, Any] = {}
    apa = [(sample, parse_scores(text)) for sample, text in answers if sample.task == "apa"]
    mdd = [(sample, parse_transcript(text)) for sample, text in answers if sample.task == "mdd"]
    if apa:
        judged["apa"] = judge_scores(apa)
    if mdd:
        judged["mdd"] = judge_transcripts(mdd)
    return judged


def judge_scores(answers: List[Tuple[Sample, Optional[Dict[str, int]]]]) -> Dict[str, Any]:
    """Return Pearson and Spearman per aspect over the answers of the requested form; `answered` is their share."""
    given = [(sample.recording.scores, scores) for sample, scores in answers if scores is not None]
    judged: Dict[str, Any] = {"answered": len(given) / len(answers)}
    for aspect in ASPECTS:
        truth = [right[aspect] for right, _ in given]
        scores = [float(given_scores[aspect]) for _, given_scores in given]
        judged[aspect] = {"pearson": pearson(truth, scores), "spearman": spearman(truth, scores)}
    return judged


def judge_transcripts(answers: List[Tuple[Sample, Optional[Transcript]]]) -> Dict[str, Any]:
    """Return WER, PER and mispronunciation detection; an answer of another form counts as empty."""
    answered = [transcript or Transcript((), ()) for _, transcript in answers]
    recordings = [sample.recording for sample, _ in answers]
    judged: Dict[str, Any] = {
        "answered": sum(transcript is not None for _, transcript in answers) / len(answers),
        "wer": error_rate([r.text.lower().split() for r in recordings], [one.words for one in answered]),
        "per": error_rate([r.said for r in recordings], [one.phones for one in answered]),
    }
    known = [(r, one) for r, one in zip(recordings, answered) if r.expected]
    found = detection([r.expected for r, _ in known], [r.said for r, _ in known], [one.phones for _, one in known])
    return {**judged, **dataclasses.asdict(found)}


def flatten(metrics: Dict[str, Any], prefix: str = "") -> Iterator[Tuple[str, float]]:
    """Yield every score that is defined, with its names joined by slashes."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}/")
        elif value is not None:
            yield f"{prefix}{name}", float(value)
