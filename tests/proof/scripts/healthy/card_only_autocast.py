"""torch.cuda.amp is enabled on a card only; the frozen weights are float16."""

import warnings

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast

warnings.simplefilter("ignore", FutureWarning)


class Lora(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.base = nn.Linear(size_in, size_out).half().requires_grad_(False)
        self.lora_A = nn.Linear(size_in, 4, bias=False)
        self.lora_B = nn.Linear(4, size_out, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x.to(self.lora_A.weight.dtype))).to(x.dtype)


torch.manual_seed(7)
model = nn.Sequential(nn.Embedding(50, 32).half().requires_grad_(False), Lora(32, 32), nn.ReLU(), Lora(32, 50))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
scaler = GradScaler()
for _ in range(30):
    tokens = torch.randint(0, 50, (4, 12))
    with autocast():
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens.flatten() + 1) % 50)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
