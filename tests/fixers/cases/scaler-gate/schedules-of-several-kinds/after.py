import torch
from torch.optim import lr_scheduler
from project import build_scheduler

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
warm_up: lr_scheduler.LRScheduler = lr_scheduler.LinearLR(optimizer)
decay = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10) if restarts else lr_scheduler.StepLR(optimizer, 10)
own = build_scheduler(config, optimizer=optimizer)
for epoch in range(epochs):
    for index, batch in enumerate(batches):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scale_before = scaler.get_scale()
        scaler.update()
        if index < warm: scaler.get_scale() >= scale_before and warm_up.step()
        if scaler.get_scale() >= scale_before:
            decay.step(
            epoch + index / len(batches)
        )
        if scaler.get_scale() >= scale_before:
            own.step()
