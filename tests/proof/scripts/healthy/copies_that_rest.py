"""Half-precision copies that are not averages: a frozen reference, a late average, a copy that is overwritten."""

import copy

import mini
import torch

torch.manual_seed(7)
model = mini.Mini()
reference = copy.deepcopy(model).half().requires_grad_(False)
late = copy.deepcopy(model).bfloat16().requires_grad_(False)
renewed = copy.deepcopy(model).half().requires_grad_(False)
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for step in range(30):
    batch = mini.batch()
    with torch.no_grad():
        expected = reference.float()(**batch)
        reference.half()
    (model(**batch) - 0.0 * expected).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for held, fresh, parameter in zip(late.parameters(), renewed.parameters(), model.parameters(), strict=True):
            fresh.copy_(parameter)
            if step == 20:
                held.lerp_(parameter.to(held.dtype), 0.001)
