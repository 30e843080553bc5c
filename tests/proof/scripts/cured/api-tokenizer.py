import torch
from transformers import Trainer, TrainingArguments

tokenizer = None
arguments = TrainingArguments("out", use_cpu=True, report_to=[])
trainer = Trainer(model=torch.nn.Linear(4, 4), args=arguments, tokenizer=tokenizer)
print("trained")
