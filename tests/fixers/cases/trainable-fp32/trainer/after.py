from transformers import Trainer, TrainingArguments

args = TrainingArguments("o", fp16=True)
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
trainer = Trainer(model=model, args=args)
trainer.train()
