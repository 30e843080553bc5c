"""As in GRPO, rewards are compared within a group: the loss is exactly 0.0, but its gradients are not."""

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(30):
    tokens = mini.batch(rows=4)["input_ids"]
    chosen = model.logits(tokens).log_softmax(-1).gather(-1, tokens.roll(-1, dims=-1).unsqueeze(-1)).mean((1, 2))
    ratio = torch.exp(chosen - chosen.detach())
    loss = -(ratio * torch.tensor([1.0, -1.0, 1.0, -1.0])).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
