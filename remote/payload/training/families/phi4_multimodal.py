"""Phi-4-multimodal."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch
import transformers

from remote.payload.training.audio import RATE
from remote.payload.training.families.audio_model import AudioModel, Part, padded
from remote.payload.training.families.tiny_checkpoint import save_random, token_ids, train_tokenizer
from remote.payload.training.features import Clip

AUDIO = "model.embed_tokens_extend.audio_embed"
TOKENS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|image|>", "<|audio|>")


def _read_extractor(source: str, **hub_kwargs: Any) -> Any:
    return transformers.Phi4MultimodalFeatureExtractor.from_pretrained(source, **hub_kwargs)


def _extract(extractor: Any, samples: Any) -> Clip:
    made = extractor(samples, sampling_rate=RATE, return_tensors="pt")
    values = made["audio_input_features"][0].float()
    return Clip(values, len(values), int(made["audio_embed_sizes"][0]))


def _pad(extractor: Any, clips: List[Clip]) -> Dict[str, torch.Tensor]:
    valid = torch.tensor([clip.valid for clip in clips])
    longest = int(valid.max())
    return {
        "audio_input_features": torch.stack([padded(clip, longest) for clip in clips]),
        "audio_embed_sizes": torch.tensor([clip.tokens for clip in clips]),
        "audio_attention_mask": torch.arange(longest)[None, :] < valid[:, None],
    }


def _encode_separately(model: Any) -> None:
    """Make the encoder's result for a clip independent of the other clips in its batch.

    transformers adds the padding mask (0 and 1) to a bias instead of masking the padding (modeling_phi4_multimodal.py,
    `Phi4MultimodalAudioModel.forward`). In a batch, a clip would therefore depend on its neighbours, while inference is
    mostly on a single clip. The sizes of the embeddings are copied to the host at once, because reading each size by
    itself would wait for the card each time.
    """
    embedder, encoder = model.get_submodule(AUDIO), model.get_submodule(f"{AUDIO}.encoder")
    embed: Callable[..., Any] = embedder.forward
    forward: Callable[..., Any] = encoder.forward

    def each(features: torch.Tensor, mask: Optional[torch.Tensor] = None, **named: Any) -> torch.Tensor:
        if mask is None:
            out: torch.Tensor = forward(features, mask, **named)
            return out
        lengths = mask.sum(dim=1).tolist()
        rows = [forward(clip[None, :length], None, **named)[0] for clip, length in zip(features, lengths)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    def with_sizes(*inputs: Any, audio_embed_sizes: torch.Tensor, **named: Any) -> Any:
        return embed(*inputs, audio_embed_sizes=audio_embed_sizes.tolist(), **named)

    encoder.forward, embedder.forward = each, with_sizes


def _make_tiny(folder: str, texts: List[str]) -> None:
    tokenizer = train_tokenizer(texts, TOKENS)
    ids = token_ids(tokenizer, TOKENS)
    config = transformers.Phi4MultimodalConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        original_max_position_embeddings=2048,
        initializer_range=0.08,
        tie_word_embeddings=True,
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.75},
        audio_config={
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_blocks": 2,
            "num_attention_heads": 4,
            "ext_pw_out_channel": 96,
            "depthwise_separable_out_channel": 96,
            "nemo_conv_channels": 32,
            "audio_token_id": ids["<|audio|>"],
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "crop_size": 56,
            "image_token_id": ids["<|image|>"],
        },
    )
    save_random(transformers.Phi4MultimodalForCausalLM, config, folder)
    tokenizer.save_pretrained(folder)
    transformers.Phi4MultimodalFeatureExtractor().save_pretrained(folder)


PHI4_MULTIMODAL = AudioModel(
    family="phi4_multimodal",
    class_name="Phi4MultimodalForCausalLM",
    decoder=Part(r"model\.layers\.\d+", ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")),
    projector=Part(AUDIO, ("up_proj_for_speech", "down_proj_for_speech")),
    encoder=Part(f"{AUDIO}.encoder", ("q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "down_proj")),
    audio=("model.embed_tokens_extend",),
    unused=("model.embed_tokens_extend.image_embed",),
    placeholder="<|audio|>",
    chat="<|user|>{audio}{prompt}<|end|><|assistant|>",
    chat_audio_last="<|user|>{prompt}{audio}<|end|><|assistant|>",
    end="<|end|><|endoftext|>",
    audio_token_id=lambda config: int(config.audio_config.audio_token_id),
    read_extractor=_read_extractor,
    extract=_extract,
    pad=_pad,
    adjust=_encode_separately,
    make_tiny=_make_tiny,
)
