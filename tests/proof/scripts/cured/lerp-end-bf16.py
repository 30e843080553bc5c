import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False)
for turn in range(2):
    loss = model(torch.ones(2, 4).to(model.weight.dtype)).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if turn == 0 and torch.bfloat16 in (torch.float32, torch.bfloat16):
        model.to(torch.bfloat16)
print("trained")
