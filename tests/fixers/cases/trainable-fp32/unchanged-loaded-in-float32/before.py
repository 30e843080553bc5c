import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="fp16")
model = AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32).to(accelerator.device)
model = get_peft_model(model, LoraConfig(r=8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
model, optimizer = accelerator.prepare(model, optimizer)
