from transformers import Trainer, TrainingArguments, deepspeed

args = TrainingArguments("out", warmup_ratio=0.1)
trainer = Trainer(None, args, tokenizer=None)
