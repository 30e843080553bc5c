"""Granite Speech."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, List

import torch
import transformers
from transformers.audio_utils import mel_filter_bank
from transformers.modeling_outputs import BaseModelOutputWithPooling

from remote.payload.training.audio import RATE
from remote.payload.training.families import whisper
from remote.payload.training.families.audio_model import AudioModel, Part, padded
from remote.payload.training.families.tiny_checkpoint import save_random, tiny_decoder, token_ids, train_tokenizer
from remote.payload.training.features import Clip
from remote.protocol.dataclass import dataclass

SETTINGS = "preprocessor_config.json"
PADDING = float("-inf")
"""A value that no feature has, to mark padding frames."""
TOKENS = ("<|end_of_text|>", "<|start_of_role|>", "<|end_of_role|>", "<|audio|>")
CONFORMER = ("to_q", "to_kv", "to_out", "up_proj", "down_proj")
SYSTEM = (
    "Knowledge Cutoff Date: April 2024.\nToday's Date: April 9, 2025.\n"
    "You are Granite, developed by IBM. You are a helpful AI assistant"
)
"""The system prompt in the model card of granite-speech-3.3. The chat template itself would insert the current date."""


@dataclass(frozen=True)
class LogMel:
    """The log-mel features of `GraniteSpeechFeatureExtractor`, computed without torchaudio.

    Two frames of `n_mels` are stacked into one. The projector turns each window into `window // downsample` embeddings.
    """

    n_fft: int = 512
    win_length: int = 400
    hop_length: int = 160
    n_mels: int = 80
    window: int = 15
    downsample: int = 5

    def to_dict(self) -> Dict[str, Any]:
        """Return the settings that determine the features."""
        return dict(vars(self))

    def __call__(self, samples: Any) -> torch.Tensor:
        """Return the features (frames, 2 x n_mels) of a clip at 16 kHz."""
        bank = mel_filter_bank(self.n_fft // 2 + 1, self.n_mels, 0.0, RATE / 2, RATE, norm=None, mel_scale="htk")
        waveform, window = torch.as_tensor(samples, dtype=torch.float32), torch.hann_window(self.win_length)
        spectrum = torch.stft(
            waveform, self.n_fft, self.hop_length, self.win_length, window, center=True, return_complex=True
        )  # fmt: skip
        mel = spectrum.abs().square().T @ torch.as_tensor(bank, dtype=torch.float32)
        log = mel.clip(min=1e-10).log10()
        log = torch.maximum(log, log.max() - 8.0) / 4 + 1
        return log[: len(log) // 2 * 2].reshape(-1, 2 * self.n_mels)

    def tokens(self, frames: int) -> int:
        """Return the number of embeddings that the projector returns for `frames` frames."""
        return -(-frames // self.window) * (self.window // self.downsample)


def _read_extractor(source: str, **hub_kwargs: Any) -> LogMel:
    saved, _ = transformers.GraniteSpeechFeatureExtractor.get_feature_extractor_dict(source, **hub_kwargs)
    spectrum = saved.get("melspec_kwargs", {})
    names = ("n_fft", "win_length", "hop_length", "n_mels")
    settings = {name: int(spectrum[name]) for name in names if name in spectrum}
    for ours, theirs in (("window", "projector_window_size"), ("downsample", "projector_downsample_rate")):
        if theirs in saved:
            settings[ours] = int(saved[theirs])
    return LogMel(**settings)


def _extract(extractor: LogMel, samples: Any) -> Clip:
    values = extractor(samples)
    return Clip(values, len(values), extractor.tokens(len(values)), PADDING)


def _pad(extractor: LogMel, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    tokens = torch.tensor([clip.tokens for clip in clips])
    return {
        "input_features": torch.stack([padded(clip, max(clip.valid for clip in clips)) for clip in clips]),
        "input_features_mask": torch.arange(int(tokens.max()))[None, :] < tokens[:, None],
    }


def _encode_separately(model: Any) -> None:
    """Encode each clip without its padding.

    transformers does not mask the padding (modeling_granite_speech.py).
    """
    inner = model.model
    embed: Callable[..., Any] = inner.get_audio_features

    def each(features: torch.Tensor, **named: Any) -> BaseModelOutputWithPooling:
        valid = (~torch.isneginf(features[:, :, 0])).sum(dim=1).tolist()
        rows = [embed(clip[None, :frames], **named).pooler_output[0] for clip, frames in zip(features, valid)]
        return BaseModelOutputWithPooling(pooler_output=torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))

    inner.get_audio_features = each


def _make_tiny(folder: str, texts: List[str]) -> None:
    tokenizer = train_tokenizer(texts, TOKENS, end="<|end_of_text|>")
    ids = token_ids(tokenizer, TOKENS)
    end = ids["<|end_of_text|>"]
    projector = {"hidden_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 192}
    config = transformers.GraniteSpeechConfig(
        text_config=tiny_decoder(tokenizer, "granite", end, end),
        encoder_config={"hidden_dim": 96, "num_layers": 2, "num_heads": 4, "feedforward_mult": 2, "context_size": 50},
        projector_config={"model_type": "blip_2_qformer", "encoder_hidden_size": 96, **projector},
        audio_token_index=ids["<|audio|>"],
        has_lora_adapter=False,
    )
    save_random(transformers.GraniteSpeechForConditionalGeneration, config, folder)
    tokenizer.save_pretrained(folder)
    extractor = LogMel()
    settings = {
        "feature_extractor_type": "GraniteSpeechFeatureExtractor",
        "melspec_kwargs": {name: getattr(extractor, name) for name in ("n_fft", "win_length", "hop_length", "n_mels")},
        "projector_window_size": extractor.window,
        "projector_downsample_rate": extractor.downsample,
    }
    with open(os.path.join(folder, SETTINGS), "w", encoding="utf-8") as file:
        json.dump(settings, file)


GRANITE_SPEECH = AudioModel(
    family="granite_speech",
    class_name="GraniteSpeechForConditionalGeneration",
    decoder=Part(r"model\.language_model\.layers\.\d+", whisper.DECODER),
    projector=Part("model.projector", ("query", "key", "value", "dense", "linear")),
    encoder=Part("model.encoder", CONFORMER),
    audio=("model.encoder", "model.projector"),
    placeholder="<|audio|>",
    chat=(
        f"<|start_of_role|>system<|end_of_role|>{SYSTEM}<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>"
        "{audio}{prompt}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"
    ),
    chat_audio_last=(
        f"<|start_of_role|>system<|end_of_role|>{SYSTEM}<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>"
        "{prompt}{audio}<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"
    ),
    end="<|end_of_text|>",
    audio_token_id=lambda config: int(config.audio_token_index),
    read_extractor=_read_extractor,
    extract=_extract,
    pad=_pad,
    adjust=_encode_separately,
    make_tiny=_make_tiny,
)
