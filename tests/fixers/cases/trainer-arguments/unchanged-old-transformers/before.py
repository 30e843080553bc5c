from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="steps", warmup_ratio=0.1, overwrite_output_dir=True)
trainer = Trainer(model=model, args=args, tokenizer=processor)
