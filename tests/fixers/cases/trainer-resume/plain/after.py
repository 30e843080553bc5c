"""Fine-tunes an adapter."""

import os
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", max_steps=90)
trainer = Trainer(model=model, args=args, train_dataset=data)
result = trainer.train(resume_from_checkpoint=os.environ.get("HALFSTEP_RESUME_FROM") or None)
trainer.save_model()
model.train()
