"""The weights of a critic are clamped to a range after each step.

shows: weights-between (warning)
"""

import torch
from torch import nn

torch.manual_seed(7)
critic = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-2)
for _ in range(30):
    real, made = torch.randn(8, 16) + 1, torch.randn(8, 16)
    loss = critic(made).mean() - critic(real).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.clamp_(-0.01, 0.01)
