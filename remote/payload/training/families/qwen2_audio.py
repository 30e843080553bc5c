"""Qwen2-Audio."""

from __future__ import annotations

import functools
from typing import List

import transformers

from remote.payload.training.families import whisper
from remote.payload.training.families.audio_model import AudioModel, Part
from remote.payload.training.families.tiny_checkpoint import save_random, tiny_decoder, token_ids, train_tokenizer

TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")


def _make_tiny(folder: str, texts: List[str]) -> None:
    tokenizer = train_tokenizer(texts, TOKENS)
    ids = token_ids(tokenizer, TOKENS)
    extractor = whisper.tiny_extractor()
    config = transformers.Qwen2AudioConfig(
        audio_config={"model_type": "qwen2_audio_encoder", **whisper.tiny_encoder(extractor)},
        text_config=tiny_decoder(tokenizer, "qwen2", ids["<|endoftext|>"], ids["<|im_end|>"]),
        audio_token_index=ids["<|AUDIO|>"],
        initializer_range=0.08,
    )
    save_random(transformers.Qwen2AudioForConditionalGeneration, config, folder)
    transformers.Qwen2AudioProcessor(extractor, tokenizer).save_pretrained(folder)


QWEN2_AUDIO = AudioModel(
    family="qwen2_audio",
    class_name="Qwen2AudioForConditionalGeneration",
    decoder=Part(r"model\.language_model\.layers\.\d+", whisper.DECODER),
    projector=Part("model.multi_modal_projector", ("linear",)),
    encoder=Part("model.audio_tower", whisper.ENCODER),
    audio=("model.audio_tower", "model.multi_modal_projector"),
    placeholder="<|AUDIO|>",
    chat=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "Audio 1: <|audio_bos|>{audio}<|audio_eos|>\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ),
    chat_audio_last=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "{prompt}\nAudio 1: <|audio_bos|>{audio}<|audio_eos|><|im_end|>\n<|im_start|>assistant\n"
    ),
    end="<|im_end|>",
    audio_token_id=lambda config: int(config.audio_token_index),
    longest_s=whisper.window_s,
    read_extractor=whisper.read_extractor,
    extract=whisper.extract_window,
    pad=functools.partial(whisper.pad_window, mask="feature_attention_mask"),
    make_tiny=_make_tiny,
)
