import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("a", torch_dtype=torch.float16)
model = get_peft_model(model, config)
arguments = TrainingArguments("out", fp16=True, fsdp="")
for parameter in model.parameters():  # a loss scaler refuses float16 gradients
    if parameter.requires_grad:
        parameter.data = parameter.data.float()
trainer = Trainer(model=model, args=arguments)
