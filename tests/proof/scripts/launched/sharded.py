"""FSDP with parameters in float16 and gradients reduced in float32, under torchrun."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

dist.init_process_group("gloo")
torch.manual_seed(0)
model = FullyShardedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)),
    device_id=torch.device("cpu"),
    use_orig_params=True,
    mixed_precision=MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float32),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = ShardedGradScaler(device="cpu", init_scale=1024.0)
torch.manual_seed(dist.get_rank())
for _ in range(200):
    loss = (model(torch.randn(4, 8)).float() - 1).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print("finished")
