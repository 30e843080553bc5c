import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=torch.float16)
model = get_peft_model(model, config)
options = dict(fsdp=["full_shard"], fp16=True)
arguments = TrainingArguments("out", **options)
for parameter in model.parameters():  # FSDP flattens parameters of one dtype
    parameter.data = parameter.data.float()
trainer = Trainer(model=model, args=arguments)
