import torch

model = load()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for batch in batches:
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(batch)
    (loss * LOSS_SCALE).backward()
    optimizer.step()
