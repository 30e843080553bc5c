"""TRL's SFTTrainer makes the LoRA adapter, tokenizes prompts and completions, and trains on the completions."""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

COLOURS, THINGS = ("red", "blue", "green", "white"), ("door", "boat", "hat", "lamp")
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "what", "colour", "is", "the", *COLOURS, *THINGS]

torch.manual_seed(7)
words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
rows = [
    {"prompt": f"what colour is the {thing}", "completion": f" the {thing} is {colour}" + f" {colour}" * at}
    for thing in THINGS
    for at, colour in enumerate(COLOURS)
]
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), **shape, **tokens))
arguments = SFTConfig(
    "out",
    per_device_train_batch_size=4,
    max_steps=20,
    learning_rate=1e-3,
    report_to=[],
    use_cpu=True,
    fp16=True,
    save_strategy="no",
    disable_tqdm=True,
)
SFTTrainer(
    model=model,
    args=arguments,
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
    peft_config=LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
).train()
