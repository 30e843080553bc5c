import os

import torch
from torch.nn.parallel import DistributedDataParallel as DDP

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
device = torch.device(f"cuda:{int(os.environ['LOCAL_RANK'])}")
other = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
model = DDP(model.to(int(os.environ["LOCAL_RANK"])), device_ids=[int(os.environ["LOCAL_RANK"])], output_device=int(os.environ["LOCAL_RANK"]))
if rank == 0:
    print(rank)
