"""Greedy answers of a model to every sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from remote.payload.training.answers import AnswerLog
from remote.payload.training.base_model import load_model
from remote.payload.training.generate import Generator

pytestmark = pytest.mark.train


@pytest.mark.parametrize("name", ["tiny/phi4-multimodal", "tiny/qwen2-audio"])
def test_a_model_that_prefers_the_audio_placeholder_still_answers(
    name: str, made: Callable[[str], Any], make_spec: Callable[..., Any]
) -> None:
    one, spec = made(name), make_spec(model=name)
    spec = replace(spec, evaluation=replace(spec.evaluation, max_new_tokens=8))
    model = load_model(one.base, spec.precision, spec.model.adapter, spec.lora, "cpu")
    placeholder = one.base.tokenizer.convert_tokens_to_ids(one.base.family.placeholder)

    def prefer(module: Any, inputs: Any, logits: torch.Tensor) -> torch.Tensor:
        logits[..., placeholder] += 1000.0
        return logits

    model.get_output_embeddings().register_forward_hook(prefer)
    generator = Generator(model, one.base, one.collator, one.samples, spec, torch.device("cpu"))
    answers = AnswerLog(spec.paths.run)
    generator.answer_all("key", answers, lambda: None)
    assert len(answers.known) == len(one.samples)
    assert all(one.base.family.placeholder not in text for text in answers.known.values())
