import os

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
device = torch.device(f"cuda:{rank}")
other = torch.device("cuda", rank)
model = DDP(model.to(rank), device_ids=[rank], output_device=rank)
if rank == 0:
    print(rank)
