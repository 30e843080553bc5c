"""One scaler serves a small critic and a larger generator; the optimizer with the most weights steps second."""

import mini
import torch
from torch import nn

torch.manual_seed(7)
generator = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64))
critic = nn.Linear(64, 1)
of_generator = torch.optim.AdamW(generator.parameters(), lr=1e-3)
of_critic = torch.optim.AdamW(critic.parameters(), lr=1e-3)
scaling = mini.scaler()
for _ in range(30):
    with mini.autocast():
        made = generator(torch.randn(8, 16))
        real, false = critic(torch.randn(8, 64)).float(), critic(made.detach()).float()
    of_critic.zero_grad()
    scaling.scale((1 - real).pow(2).mean() + false.pow(2).mean()).backward()
    scaling.step(of_critic)
    with mini.autocast():
        score = critic(made).float()
    of_generator.zero_grad()
    scaling.scale((1 - score).pow(2).mean()).backward()
    scaling.step(of_generator)
    scaling.update()
