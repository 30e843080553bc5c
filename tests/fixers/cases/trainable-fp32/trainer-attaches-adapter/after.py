from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model=model, args=SFTConfig(fp16=True), peft_config=lora)
for parameter in trainer.model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
trainer.train()
