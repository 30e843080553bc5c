from transformers import Trainer, TrainingArguments

Trainer(model=model, args=TrainingArguments("out", save_strategy="no")).train()
