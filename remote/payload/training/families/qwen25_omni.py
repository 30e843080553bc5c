"""Qwen2.5-Omni: only its thinker, which has speech as input and text as output."""

from __future__ import annotations

from typing import Any, Dict, List

import torch
import transformers

from remote.payload.training.audio import RATE
from remote.payload.training.families import whisper
from remote.payload.training.families.audio_model import AudioModel, Part, padded
from remote.payload.training.families.tiny_checkpoint import save_random, tiny_decoder, token_ids, train_tokenizer
from remote.payload.training.features import Clip

TOKENS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>",
    "<|IMAGE|>", "<|VIDEO|>", "<|vision_bos|>", "<|vision_eos|>",
)  # fmt: skip


def _extract(extractor: Any, samples: Any) -> Clip:
    """Return only the clip's own frames. The processor pads to 300 s, and the encoder removes this padding again."""
    silence = 2 * extractor.n_fft
    made = extractor(
        samples,
        sampling_rate=RATE,
        return_attention_mask=True,
        padding="max_length",
        max_length=min(len(samples) + silence, extractor.n_samples),
        return_tensors="pt",
    )
    valid = int(made["attention_mask"][0].sum())
    return Clip(made["input_features"][0].T[:valid].float().clone(), valid, whisper.pooled(valid))


def _pad(extractor: Any, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    valid = torch.tensor([clip.valid for clip in clips])
    longest = int(valid.max())
    return {
        "input_features": torch.stack([padded(clip, longest).T for clip in clips]),
        "feature_attention_mask": (torch.arange(longest)[None, :] < valid[:, None]).long(),
    }


def _own_config(config: Any) -> Any:
    return getattr(config, "thinker_config", config)


def _make_tiny(folder: str, texts: List[str]) -> None:
    extractor = whisper.tiny_extractor()
    tokenizer = train_tokenizer(texts, TOKENS)
    ids = token_ids(tokenizer, TOKENS)
    text = tiny_decoder(tokenizer, "qwen2_5_omni_text", ids["<|endoftext|>"], ids["<|im_end|>"])
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]}
    config = transformers.Qwen2_5OmniThinkerConfig(
        audio_config={"n_window": 50, "output_dim": 256, **whisper.tiny_encoder(extractor)},
        vision_config={"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 256},
        text_config={**text, "rope_parameters": rope},
        audio_token_index=ids["<|AUDIO|>"],
        image_token_index=ids["<|IMAGE|>"],
        video_token_index=ids["<|VIDEO|>"],
        audio_start_token_id=ids["<|audio_bos|>"],
        audio_end_token_id=ids["<|audio_eos|>"],
        vision_start_token_id=ids["<|vision_bos|>"],
        initializer_range=0.08,
    )
    save_random(transformers.Qwen2_5OmniThinkerForConditionalGeneration, config, folder)
    tokenizer.save_pretrained(folder)
    extractor.save_pretrained(folder)


QWEN25_OMNI = AudioModel(
    family="qwen2_5_omni",
    class_name="Qwen2_5OmniThinkerForConditionalGeneration",
    decoder=Part(r"model\.language_model\.layers\.\d+", whisper.DECODER),
    projector=Part("model.audio_tower", ("proj",)),
    encoder=Part(r"model\.audio_tower\.layers\.\d+", whisper.ENCODER),
    audio=("model.audio_tower",),
    unused=("model.visual",),
    placeholder="<|AUDIO|>",
    chat=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "<|audio_bos|>{audio}<|audio_eos|>{prompt}<|im_end|>\n<|im_start|>assistant\n"
    ),
    chat_audio_last=(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
        "{prompt}<|audio_bos|>{audio}<|audio_eos|><|im_end|>\n<|im_start|>assistant\n"
    ),
    end="<|im_end|>",
    audio_token_id=lambda config: int(config.audio_token_index),
    own_config=_own_config,
    longest_s=whisper.window_s,
    read_extractor=whisper.read_extractor,
    extract=_extract,
    pad=_pad,
    make_tiny=_make_tiny,
)
