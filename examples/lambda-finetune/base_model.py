"""Creates the base model if it does not exist: a Llama with 80,000 weights and a tokenizer of single bytes."""

import contextlib
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def make_base(folder: Path) -> None:
    """Create a float16 checkpoint in the hub's format in `folder`, unless another process created it first."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{folder.name}-") as made:
        save_base(Path(made) / folder.name)
        with contextlib.suppress(OSError):
            (Path(made) / folder.name).rename(folder)


def save_base(folder: Path) -> None:
    """Save the model, with the same weights every time."""
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=256,
        bos_token_id=256,
        eos_token_id=257,
    )
    LlamaForCausalLM(config).half().save_pretrained(folder)
    letters = sorted(ByteLevel.alphabet())
    made = Tokenizer(BPE({letter: at for at, letter in enumerate(letters)}, []))
    made.pre_tokenizer, made.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    made.add_special_tokens(["<pad>", "<end>"])
    PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<end>").save_pretrained(folder)
