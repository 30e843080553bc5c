from trl import SFTConfig, SFTTrainer

trainer = SFTTrainer(model=model, args=SFTConfig(fp16=True), peft_config=lora)
trainer.train()
