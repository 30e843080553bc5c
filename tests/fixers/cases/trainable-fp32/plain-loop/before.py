import torch
from peft import get_peft_model

model = get_peft_model(model, config)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scaler = torch.amp.GradScaler()
