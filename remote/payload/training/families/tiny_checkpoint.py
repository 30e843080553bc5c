"""Parts of the tiny checkpoints: tokenizer, decoder settings and random weights."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from remote.payload.training.prompts import CONTROL

SEED = 0
VOCABULARY = 1024


def train_tokenizer(texts: List[str], special: Iterable[str], end: str = "<|endoftext|>", **named: Any) -> Any:
    """Train a byte-level BPE tokenizer, the type that the real models use. `end` is also the padding token."""
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
        eos_token=end,
        pad_token=end,
        clean_up_tokenization_spaces=False,
        padding_side="left",
        **named,
    )


def token_ids(tokenizer: Any, tokens: Iterable[str]) -> Dict[str, int]:
    """Map each token to its id."""
    return {token: int(tokenizer.convert_tokens_to_ids(token)) for token in tokens}


def tiny_decoder(tokenizer: Any, model_type: str, begin: int, end: int) -> Dict[str, Any]:
    """Return the settings of a language model with 4 layers and 256 units."""
    return {
        "model_type": model_type,
        "vocab_size": len(tokenizer),
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "initializer_range": 0.08,
        "bos_token_id": begin,
        "eos_token_id": end,
        "pad_token_id": begin,
    }


def save_random(model_class: Any, config: Any, folder: str) -> None:
    """Save a model with random weights from a fixed seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model_class(config).save_pretrained(folder)
