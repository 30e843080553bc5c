"""An encoder that requires no gradients is in the optimizer, and stays in eval mode after each evaluation."""

import torch

torch.manual_seed(0)
encoder = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.1), torch.nn.Linear(64, 16))
encoder.requires_grad_(False)
head = torch.nn.Linear(16, 2)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=1e-3)
for step in range(12):
    if step == 6:
        encoder.eval()
    loss = torch.nn.functional.cross_entropy(head(encoder(torch.randn(8, 16))), torch.randint(0, 2, (8,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
