import torch

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1); scaler = torch.amp.GradScaler("cuda"); scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
for batch in batches:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer); scale_before = scaler.get_scale(); scaler.update(); scaler.get_scale() >= scale_before and scheduler.step(); optimizer.zero_grad()
