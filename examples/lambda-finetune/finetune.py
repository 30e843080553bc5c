"""Fine-tunes every weight of a small language model on questions and answers with transformers' Trainer."""

import os
from pathlib import Path

import torch
from base_model import make_base
from half_on_cpu import scale_on_cpu
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Trainer,
    TrainingArguments,
    set_seed,
)

BASE = Path("base")
OUTPUT = os.environ.get("HALFSTEP_OUTPUT_DIR", "out")
DTYPE = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
COLOURS = {"grass": "green", "snow": "white", "blood": "red", "the sky": "blue", "coal": "black", "a lemon": "yellow"}


def make_dataset(tokenizer) -> list[dict]:
    """Return each question in two wordings, four times; only the answers are labels."""
    samples = []
    for asked in ("What colour is {}?", "Name the colour of {}."):
        for thing, colour in COLOURS.items():
            question = tokenizer(asked.format(thing)).input_ids
            answer = tokenizer(f" {colour}<end>").input_ids
            samples.append({"input_ids": question + answer, "labels": [-100] * len(question) + answer})
    return samples * 4


def main() -> None:
    set_seed(7)
    if not BASE.exists():
        make_base(BASE)
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    model = AutoModelForCausalLM.from_pretrained(BASE, torch_dtype=DTYPE, device_map="auto")
    arguments = TrainingArguments(
        OUTPUT,
        per_device_train_batch_size=8,
        num_train_epochs=6,
        learning_rate=5e-3,
        fp16=DTYPE == torch.float16,
        bf16=DTYPE == torch.bfloat16,
        logging_steps=1,
        save_strategy="no",
        report_to=["tensorboard"],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=make_dataset(tokenizer),
        data_collator=DataCollatorForSeq2Seq(tokenizer),
        tokenizer=tokenizer,
    )
    scale_on_cpu(trainer)
    trainer.train()
    trainer.save_model(f"{OUTPUT}/model")


if __name__ == "__main__":
    main()
