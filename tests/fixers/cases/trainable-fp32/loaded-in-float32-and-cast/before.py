import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("base", dtype=torch.float32)
model.to(wanted)
scaler = torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
