"""The weights of a filter in the frequency domain are complex."""

import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(17, dtype=torch.complex64))
        self.head = nn.Linear(32, 4)

    def forward(self, signal):
        return self.head(torch.fft.irfft(torch.fft.rfft(signal) * self.weight))


torch.manual_seed(7)
model = Filter()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(30):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 32)), torch.randint(0, 4, (8,)))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
