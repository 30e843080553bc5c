"""Small models of real architectures, randomly initialised, saved so that the real `from_pretrained` loads them.

They allow a full run on a CPU without a network; they are not pretrained and learn little.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
import tempfile
from typing import Any, Callable, Dict, Iterable, List

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Phi4MultimodalConfig,
    Phi4MultimodalFeatureExtractor,
    Phi4MultimodalForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2AudioConfig,
    Qwen2AudioForConditionalGeneration,
    Qwen2AudioProcessor,
    WhisperFeatureExtractor,
)

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.prompts import CONTROL, PROMPTS
from remote.protocol.exits import ExitCode

PREFIX = "tiny/"
SEED = 0
VOCABULARY = 1024
WINDOW_S = 5

PHI4_TOKENS = ("<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|image|>", "<|audio|>")
QWEN2_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")


def tiny_model(name: str, cache: str, corpus: Iterable[str]) -> str:
    """Return the folder of the tiny model `name`, created atomically if `cache` does not have it.

    The tokenizer is trained on the prompts and `corpus`, so other data give another model.
    """
    if name not in MAKERS:
        raise TrainingFailed(
            "model-unknown", f"no model {name}; available: {', '.join(sorted(MAKERS))}", exit_code=ExitCode.USAGE
        )
    texts = [*PROMPTS.values(), *corpus]
    recipe = inspect.getsource(sys.modules[__name__])
    digest = hashlib.sha256(json.dumps([recipe, name, texts]).encode()).hexdigest()[:12]
    folder = os.path.join(cache, "models", f"{name.replace('/', '-')}-{digest}")
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        part = tempfile.mkdtemp(dir=os.path.dirname(folder))
        MAKERS[name](part, texts)
        try:
            os.replace(part, folder)
        except OSError:
            shutil.rmtree(part)
    return folder


def _make_phi4(folder: str, texts: List[str]) -> None:
    tokenizer = _train_tokenizer(texts, PHI4_TOKENS)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in PHI4_TOKENS}
    config = Phi4MultimodalConfig(
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
    _save(Phi4MultimodalForCausalLM, config, folder)
    tokenizer.save_pretrained(folder)
    Phi4MultimodalFeatureExtractor().save_pretrained(folder)


def _make_qwen2_audio(folder: str, texts: List[str]) -> None:
    tokenizer = _train_tokenizer(texts, QWEN2_TOKENS)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in QWEN2_TOKENS}
    extractor = WhisperFeatureExtractor(feature_size=64, chunk_length=WINDOW_S)
    config = Qwen2AudioConfig(
        audio_config={
            "model_type": "qwen2_audio_encoder",
            "num_mel_bins": 64,
            "d_model": 96,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 192,
            "max_source_positions": extractor.nb_max_frames // 2,
        },
        text_config={
            "model_type": "qwen2",
            "vocab_size": len(tokenizer),
            "hidden_size": 256,
            "intermediate_size": 768,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "initializer_range": 0.08,
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
        },
        audio_token_index=ids["<|AUDIO|>"],
        initializer_range=0.08,
    )
    _save(Qwen2AudioForConditionalGeneration, config, folder)
    Qwen2AudioProcessor(extractor, tokenizer).save_pretrained(folder)


def _save(model_class: Any, config: Any, folder: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model_class(config).save_pretrained(folder)


def _train_tokenizer(texts: List[str], special: Iterable[str]) -> Any:
    """Train a byte-level BPE tokenizer, the type that the real models use."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*special, *CONTROL.values()],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


MAKERS: Dict[str, Callable[[str, List[str]], None]] = {
    "tiny/phi4-multimodal": _make_phi4,
    "tiny/qwen2-audio": _make_qwen2_audio,
}
