import torch
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau, StepLR

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
plateau = ReduceLROnPlateau(optimizer)
per_epoch = StepLR(optimizer, 1)
counted = LambdaLR(optimizer, rate)
first = LambdaLR(optimizer, rate)
unknown = make_it(model)
for epoch in range(epochs):
    for batch in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch).mean()
        scaler.scale(loss).backward()
        first.step()
        scaler.step(optimizer)
        scaler.update()
        plateau.step(loss)
        unknown.step()
        if counted is not None:
            counted.step()
            log(counted.get_last_lr())
        rate_now = per_epoch.get_last_lr()
    per_epoch.step()
