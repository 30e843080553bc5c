import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = model.half()
ddp_model = DDP(model, device_ids=[rank])
optimizer = torch.optim.AdamW(ddp_model.parameters())
