import torch

model = torch.nn.Linear(4, 4)
model = model.to(torch.float16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
with torch.autocast("cpu", torch.float16):
    loss = model(torch.ones(2, 4)).float().pow(2).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print("trained")
