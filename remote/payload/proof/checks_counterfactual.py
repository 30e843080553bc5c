"""Checks of the recomputed last batch: in float32, with other padding ids, silent audio, and item counts."""

from __future__ import annotations

from typing import Iterator, Optional

from remote.payload.proof.evidence import Evidence, Result, adapter_of, passed, warning
from remote.payload.proof.hooks.accumulation import excess
from remote.payload.proof.hooks.report import Counterfactual
from remote.protocol.proof import NotChecked

WIDE_GAP = 0.05
PADDING_GAP = 0.005
ITEMS_GAP = 0.05
DRAWS = "the model draws random numbers, which differ between half precision and float32"
DIVIDED_IN_STEP = "trainer.model_accepts_loss_kwargs = False before trainer.train()"
NOT_REACHED = "the proof ended before the last batch could be computed again"


def judge(evidence: Evidence) -> Iterator[Result]:
    """Yield the results. Each result is based on a single signal and is therefore never more than a warning."""
    recomputed = evidence.first.counterfactual or Counterfactual(why=NOT_REACHED)
    yield _agreement(recomputed)
    yield _padding(recomputed)
    yield _audio(recomputed)
    yield from _accumulation(evidence, recomputed)


def _agreement(recomputed: Counterfactual) -> Result:
    if recomputed.wide_gap is None:
        return NotChecked("loss-agreement", recomputed.why or "the model computes in float32 already")
    if recomputed.wide_finite and not recomputed.finite:
        return warning("loss-agreement", "the last batch is not finite in half precision, and is finite in float32")
    if recomputed.wide_gap > WIDE_GAP and recomputed.draws:
        return NotChecked("loss-agreement", DRAWS)
    if recomputed.wide_gap > WIDE_GAP:
        return warning(
            "loss-agreement", f"half precision changes the result of the last batch by {recomputed.wide_gap:.1%}"
        )
    return passed(
        "loss-agreement", f"float32 gives the same result for the last batch, within {recomputed.wide_gap:.2%}"
    )


def _padding(recomputed: Counterfactual) -> Result:
    if recomputed.padding_gap is None:
        return NotChecked("padding-agreement", recomputed.why or "the last batch had no padded input_ids")
    if recomputed.padding_gap > PADDING_GAP:
        message = f"replacing the padding ids changes the result of the last batch by {recomputed.padding_gap:.1%}"
        return warning("padding-agreement", message, hint="check that the attention mask reaches the attention")
    return passed(
        "padding-agreement", f"replacing the padding ids changes nothing (within {recomputed.padding_gap:.2%})"
    )


def _audio(recomputed: Counterfactual) -> Result:
    gap: Optional[float] = recomputed.silence_gap
    if gap is None:
        return NotChecked("audio-used", recomputed.why or "the last batch had no audio features that vary")
    if gap == 0.0:
        message = (
            "the model does not use the audio features: zeros in their place give the same result for the last batch"
        )
        hint = "check that the features reach the encoder, and that the prompt contains placeholder tokens for audio"
        return warning("audio-used", message, hint=hint)
    return passed("audio-used", f"without audio, the result of the last batch changes by {gap:.1%}")


def _accumulation(evidence: Evidence, recomputed: Counterfactual) -> Iterator[Result]:
    """Judge a loss that neither the model nor other code divides by the number of accumulated micro-batches."""
    first = evidence.first
    use, factor = first.batches.loss_use, excess(first.batches.loss_use, evidence.steps, first.world)
    if use is None or factor <= 1.0:
        return
    too_large = f"the loss is not divided by other code: loss and gradients are {factor:g} times too large"
    if not use.passed:
        message = f"compute_loss does not pass num_items_in_batch to the model, and {too_large}"
        yield warning("loss-accumulation", message, where=use.place, hint=DIVIDED_IN_STEP)
    elif recomputed.items_gap is None:
        why = recomputed.why or "the last batch could not be computed again with another num_items_in_batch"
        yield NotChecked("loss-accumulation", why)
    elif recomputed.items_gap > ITEMS_GAP:
        yield passed("loss-accumulation", "the model divides its loss by num_items_in_batch")
    else:
        adapted = any(adapter_of(row.name) for row in evidence.trainable)
        before = "before PEFT wraps the model" if adapted else "before the Trainer is created"
        hint = f"model.accepts_loss_kwargs = False {before}" if use.trainer else f"(loss / {factor:g}).backward()"
        message = f"the model ignores num_items_in_batch, and {too_large}"
        yield warning("loss-accumulation", message, where=use.place, hint=hint)
