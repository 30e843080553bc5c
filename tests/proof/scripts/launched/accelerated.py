"""A plain loop with Accelerate."""

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.utils.data.TensorDataset(torch.randn(400, 8), torch.randn(400, 1))
model, optimizer, feed = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=4))
for features, wanted in feed:
    loss = torch.nn.functional.mse_loss(model(features), wanted)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print("finished")
