"""The audio language models that the built-in trainer supports, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch
from transformers import (
    Phi4MultimodalFeatureExtractor,
    Qwen2AudioForConditionalGeneration,
    WhisperFeatureExtractor,
)

from remote.payload.training.audio import RATE
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.features import Clip
from remote.payload.training.phi4 import Phi4Audio
from remote.protocol.exits import ExitCode


@dataclass(frozen=True)
class AudioModel:
    """One family. `chat` holds {audio} and {prompt}; the answer follows it and ends with `end`.

    `layers` (a pattern) finds the language model's decoder layers, `targets` their linear layers that get an adapter;
    towers of other modalities, which have layers of the same names, get none. `frozen` modules embed audio and run
    without a graph. `unbatched` encoders encode each clip separately. `pad` makes one batch of clips (keyword arguments
    of `forward`).
    """

    family: str
    model_class: Any
    extractor_class: Any
    layers: str
    targets: Tuple[str, ...]
    frozen: Tuple[str, ...]
    unbatched: Tuple[str, ...]
    placeholder: str
    chat: str
    end: str
    audio_token_id: Callable[[Any], int]
    extract: Callable[[Any, Any], Clip]
    pad: Callable[[Any, List[Clip]], Dict[str, torch.Tensor]]


def find_model(family: str) -> AudioModel:
    """Return the model of a family (`model_type` in config.json). Raises TrainingFailed for an unknown one."""
    if family in MODELS:
        return MODELS[family]
    hint = "give a revision whose config.json says phi4_multimodal" if family == "phi4mm" else "command: [...]"
    raise TrainingFailed(
        "model-unknown",
        f"the built-in trainer does not support {family!r}; it supports {', '.join(sorted(MODELS))}",
        hint=hint,
        exit_code=ExitCode.USAGE,
    )


def _extract_phi4(extractor: Any, samples: Any) -> Clip:
    made = extractor(samples, sampling_rate=RATE, return_tensors="pt")
    values = made["audio_input_features"][0].float()
    return Clip(values, len(values), int(made["audio_embed_sizes"][0]))


def _pad_phi4(extractor: Any, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    valid = torch.tensor([clip.valid for clip in clips])
    longest = int(valid.max())
    return {
        "audio_input_features": torch.stack([_padded(clip, longest) for clip in clips]),
        "audio_embed_sizes": torch.tensor([clip.tokens for clip in clips]),
        "audio_attention_mask": torch.arange(longest)[None, :] < valid[:, None],
    }


def _extract_qwen2(extractor: Any, samples: Any) -> Clip:
    """Keep the frames up to the last that differs from the fill value; the encoder gets its whole window."""
    made = extractor(samples, sampling_rate=RATE, return_attention_mask=True, padding="max_length", return_tensors="pt")
    values = made["input_features"][0].T.float()
    valid = int(made["attention_mask"][0].sum())
    fill = float(values[-1, 0])
    filled = (values != fill).any(dim=1).nonzero()
    kept = max(valid, int(filled.max()) + 1 if len(filled) else 0)
    return Clip(values[:kept].clone(), valid, _qwen2_tokens(valid), fill)


def _qwen2_tokens(frames: int) -> int:
    return (((frames - 1) // 2 + 1) - 2) // 2 + 1


def _pad_qwen2(extractor: Any, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    window = int(extractor.nb_max_frames)
    valid = torch.tensor([clip.valid for clip in clips])
    return {
        "input_features": torch.stack([_padded(clip, window).T for clip in clips]),
        "feature_attention_mask": (torch.arange(window)[None, :] < valid[:, None]).long(),
    }


def _padded(clip: Clip, frames: int) -> torch.Tensor:
    missing = frames - len(clip.values)
    return torch.nn.functional.pad(clip.values, (0, 0, 0, missing), value=clip.fill)


MODELS: Dict[str, AudioModel] = {
    "phi4_multimodal": AudioModel(
        family="phi4_multimodal",
        model_class=Phi4Audio,
        extractor_class=Phi4MultimodalFeatureExtractor,
        layers=r"model\.layers\.\d+",
        targets=("qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
        frozen=("model.embed_tokens_extend",),
        unbatched=("model.embed_tokens_extend.audio_embed.encoder",),
        placeholder="<|audio|>",
        chat="<|user|>{audio}{prompt}<|end|><|assistant|>",
        end="<|end|><|endoftext|>",
        audio_token_id=lambda config: int(config.audio_config.audio_token_id),
        extract=_extract_phi4,
        pad=_pad_phi4,
    ),
    "qwen2_audio": AudioModel(
        family="qwen2_audio",
        model_class=Qwen2AudioForConditionalGeneration,
        extractor_class=WhisperFeatureExtractor,
        layers=r"model\.language_model\.layers\.\d+",
        targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        frozen=("model.audio_tower", "model.multi_modal_projector"),
        unbatched=(),
        placeholder="<|AUDIO|>",
        chat=(
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
            "Audio 1: <|audio_bos|>{audio}<|audio_eos|>\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
        ),
        end="<|im_end|>",
        audio_token_id=lambda config: int(config.audio_token_index),
        extract=_extract_qwen2,
        pad=_pad_qwen2,
    ),
}
