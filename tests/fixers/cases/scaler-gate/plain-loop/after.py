import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device)
scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
for step, batch in enumerate(batches):
    with torch.autocast(device_type=device, dtype=torch.float16):
        loss = model(batch).mean()
    scaler.scale(loss / accumulate).backward()
    if (step + 1) % accumulate == 0:
        scaler.unscale_(optimizer)
        if clip:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        scaler.step(optimizer)  # the step
        scale_before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() >= scale_before:
            scheduler.step()
        optimizer.zero_grad()
