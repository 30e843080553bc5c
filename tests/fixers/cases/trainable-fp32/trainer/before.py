from transformers import Trainer, TrainingArguments

args = TrainingArguments("o", fp16=True)
trainer = Trainer(model=model, args=args)
trainer.train()
