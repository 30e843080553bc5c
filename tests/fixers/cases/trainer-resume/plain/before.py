"""Fine-tunes an adapter."""

from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", max_steps=90)
trainer = Trainer(model=model, args=args, train_dataset=data)
result = trainer.train()
trainer.save_model()
model.train()
