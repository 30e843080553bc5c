"""TRL's SFTTrainer makes the LoRA adapter, tokenizes prompts and completions, and trains on the completions."""

from datasets import Dataset
from tiny_trl import COLOURS, THINGS, adapter, model, settings, tokenizer
from trl import SFTConfig, SFTTrainer

rows = [
    {"prompt": f"what colour is the {thing}", "completion": f" the {thing} is {colour}" + f" {colour}" * at}
    for thing in THINGS
    for at, colour in enumerate(COLOURS)
]
SFTTrainer(
    model=model,
    args=SFTConfig("out", gradient_accumulation_steps=2, **settings),
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
    peft_config=adapter,
).train()
