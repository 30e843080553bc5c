import torch

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1); scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
for batch in batches:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step(); scheduler.step(); optimizer.zero_grad()
