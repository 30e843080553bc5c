"""TRL's DPOTrainer trains on pairs of completions; the base model without its adapter is the reference."""

from datasets import Dataset
from tiny_trl import COLOURS, THINGS, adapter, model, settings, tokenizer
from trl import DPOConfig, DPOTrainer

rows = [
    {"prompt": f"what colour is the {thing}", "chosen": f" the {thing} is {colour}", "rejected": f" {colour}" * at}
    for thing in THINGS
    for at, colour in enumerate(COLOURS, start=1)
]
DPOTrainer(
    model=model,
    args=DPOConfig("out", **settings),
    train_dataset=Dataset.from_list(rows),
    processing_class=tokenizer,
    peft_config=adapter,
).train()
