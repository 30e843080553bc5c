import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=torch.float16)
model = get_peft_model(model, config)
arguments = TrainingArguments("out", fp16=True, fsdp="full_shard", fsdp_config={"fsdp_version": 2})
trainer = Trainer(model=model, args=arguments)
