"""The first rewards of a policy are all equal, so the loss is 0.0 and has no gradient until a reward differs."""

import torch
from torch import nn

torch.manual_seed(7)
policy = nn.Linear(8, 4)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for step in range(30):
    scores = policy(torch.randn(16, 8)).log_softmax(-1)
    actions = torch.distributions.Categorical(logits=scores).sample()
    rewards = (actions == 0).float() if step > 2 else torch.zeros(16)
    loss = -(scores.gather(1, actions[:, None])[:, 0] * (rewards - rewards.mean())).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
