"""Embeddings with sparse gradients are trained by a separate optimizer."""

import torch
from torch import nn

torch.manual_seed(7)
embedding, head = nn.Embedding(500, 16, sparse=True), nn.Linear(16, 4)
model = nn.Sequential(embedding, head)
optimizers = [torch.optim.SparseAdam(embedding.parameters(), lr=1e-2), torch.optim.AdamW(head.parameters(), lr=1e-3)]
for _ in range(30):
    loss = nn.functional.cross_entropy(model(torch.randint(0, 500, (8,))), torch.randint(0, 4, (8,)))
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
