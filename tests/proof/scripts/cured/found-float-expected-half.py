import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 4).to(torch.float16)
output = model(torch.ones(2, 4, dtype=torch.float16))
loss = F.huber_loss(output, torch.zeros(2, 4))
loss.backward()
print("trained")
