"""Shared by the scripts with TRL: a small language model, its tokenizer, and the settings of a short training."""

import torch
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

COLOURS, THINGS = ("red", "blue", "green", "white"), ("door", "boat", "hat", "lamp")
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "what", "colour", "is", "the", *COLOURS, *THINGS]

torch.manual_seed(7)
words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), **shape, **tokens))
adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
settings = {
    "per_device_train_batch_size": 4,
    "max_steps": 20,
    "learning_rate": 1e-3,
    "report_to": [],
    "use_cpu": True,
    "fp16": True,
    "save_strategy": "no",
    "disable_tqdm": True,
}
