"""Voxtral."""

from __future__ import annotations

from typing import Any, Dict, List

import torch
import transformers

from remote.payload.training.families import whisper
from remote.payload.training.families.audio_model import AudioModel, Part, padded
from remote.payload.training.families.tiny_checkpoint import save_random, tiny_decoder, token_ids, train_tokenizer
from remote.payload.training.features import Clip

MARKUP = ("<s>", "</s>", "[INST]", "[/INST]", "[BEGIN_AUDIO]")
TOKENS = ("<unk>", "<s>", "</s>", "[INST]", "[/INST]", *(f"<SPECIAL_{i}>" for i in range(5, 24)), "[AUDIO]",
          "[BEGIN_AUDIO]")  # fmt: skip
FRAMES_PER_TOKEN = 8
"""Encoder frames per embedding: a convolution of stride 2, then four positions in one embedding."""


def _extract(extractor: Any, samples: Any) -> Clip:
    """Extract the features of a clip. The model gets an embedding for every frame of the window, including silence."""
    clip = whisper.extract_window(extractor, samples)
    return Clip(clip.values, clip.valid, int(extractor.nb_max_frames) // FRAMES_PER_TOKEN, clip.fill)


def _pad(extractor: Any, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    return {"input_features": torch.stack([padded(clip, int(extractor.nb_max_frames)).T for clip in clips])}


def _make_tiny(folder: str, texts: List[str]) -> None:
    extractor = whisper.tiny_extractor(window=6)
    tokenizer = train_tokenizer(texts, TOKENS, end="</s>")
    ids = token_ids(tokenizer, TOKENS)
    encoder = {**whisper.tiny_encoder(extractor), "encoder_ffn_dim": 384}
    config = transformers.VoxtralConfig(
        audio_config={"model_type": "voxtral_encoder", **encoder},
        text_config={**tiny_decoder(tokenizer, "llama", ids["<s>"], ids["</s>"]), "head_dim": 64},
        audio_token_id=ids["[AUDIO]"],
    )
    save_random(transformers.VoxtralForConditionalGeneration, config, folder)
    tokenizer.save_pretrained(folder)
    extractor.save_pretrained(folder)


VOXTRAL = AudioModel(
    family="voxtral",
    class_name="VoxtralForConditionalGeneration",
    decoder=Part(r"model\.language_model\.layers\.\d+", whisper.DECODER),
    projector=Part("model.multi_modal_projector", ("linear_1", "linear_2")),
    encoder=Part("model.audio_tower", whisper.ENCODER),
    audio=("model.audio_tower", "model.multi_modal_projector"),
    placeholder="[AUDIO]",
    chat="<s>[INST][BEGIN_AUDIO]{audio}{prompt}[/INST]",
    chat_audio_last="<s>[INST]{prompt}[BEGIN_AUDIO]{audio}[/INST]",
    end="</s>",
    markup=MARKUP,
    longest_s=whisper.window_s,
    read_extractor=whisper.read_extractor,
    extract=_extract,
    pad=_pad,
    make_tiny=_make_tiny,
)
