"""Audio Flamingo 3."""

from __future__ import annotations

import functools
from typing import Any, Callable, List

import torch
import transformers

from remote.payload.training.families import whisper
from remote.payload.training.families.audio_model import AudioModel, Part
from remote.payload.training.families.tiny_checkpoint import save_random, tiny_decoder, token_ids, train_tokenizer

TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<sound>")


def _cast_features(model: Any) -> None:
    """Convert the features to the encoder's dtype. The encoders of other families do this themselves."""
    encoder = model.get_submodule("model.audio_tower")
    forward: Callable[..., Any] = encoder.forward

    def cast(features: torch.Tensor, *inputs: Any, **named: Any) -> Any:
        return forward(features.to(encoder.conv1.weight.dtype), *inputs, **named)

    encoder.forward = cast


def _make_tiny(folder: str, texts: List[str]) -> None:
    extractor = whisper.tiny_extractor()
    tokenizer = train_tokenizer(texts, TOKENS)
    ids = token_ids(tokenizer, TOKENS)
    config = transformers.AudioFlamingo3Config(
        audio_config={"model_type": "audioflamingo3_encoder", **whisper.tiny_encoder(extractor)},
        text_config=tiny_decoder(tokenizer, "qwen2", ids["<|endoftext|>"], ids["<|im_end|>"]),
        audio_token_id=ids["<sound>"],
    )
    save_random(transformers.AudioFlamingo3ForConditionalGeneration, config, folder)
    transformers.AudioFlamingo3Processor(extractor, tokenizer).save_pretrained(folder)


AUDIO_FLAMINGO3 = AudioModel(
    family="audioflamingo3",
    class_name="AudioFlamingo3ForConditionalGeneration",
    decoder=Part(r"model\.language_model\.layers\.\d+", whisper.DECODER),
    projector=Part("model.multi_modal_projector", ("linear_1", "linear_2")),
    encoder=Part("model.audio_tower", whisper.ENCODER),
    audio=("model.audio_tower", "model.multi_modal_projector"),
    placeholder="<sound>",
    chat=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "{audio}{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ),
    chat_audio_last=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "{prompt}{audio}<|im_end|>\n<|im_start|>assistant\n"
    ),
    end="<|im_end|>",
    longest_s=whisper.window_s,
    read_extractor=whisper.read_extractor,
    extract=whisper.extract_window,
    pad=functools.partial(whisper.pad_window, mask="input_features_mask"),
    adjust=_cast_features,
    make_tiny=_make_tiny,
)
