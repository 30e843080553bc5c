"""An evaluation of the base model disables the adapter; afterwards only the head is trained.

A second script for the same check.

expects: adapter-gradient
"""

import mini
import torch
import torch.nn.functional as F

ON = [True]


def forward(self, x):
    return self.base(x) + (F.linear(F.linear(x, self.lora_A), self.lora_B) if ON[0] else 0)


mini.Lora.forward = forward
model = mini.build()
model.head.float().requires_grad_(True)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
mini.train(model, optimizer=optimizer, steps=5)
ON[0] = False
with torch.no_grad(), mini.autocast():
    print("evaluated", float(model.eval()(**mini.batch())))
model.train()
mini.train(model, optimizer=optimizer, steps=8)
